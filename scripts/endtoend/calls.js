// Proxied calls: the result is the server's own, and the server receives exactly
// what the client wrote.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { prefix } from "./lists.js";
import { member, replace, tokens } from "./rawjson.js";
import { assert, equal } from "./report.js";

const callParams = (name, args, rest = "") => `{"name":${JSON.stringify(name)},"arguments":${args}${rest}}`;

export async function calls(context) {
  await sameResults(context);
  await requestAsWritten(context);
  await progress(context);
  await severalAtOnce(context);
  await errors(context);
  await files(context);
}

async function sameResults({ report, main, direct }) {
  const cases = [
    ["echo", "everything", "echo", '{"message":"héllo \\u2028 \\"quoted\\" 🌍"}'],
    ["get-sum", "everything", "get-sum", '{"a":2,"b":40}'],
    ["an image", "everything", "get-tiny-image", "{}"],
    ["structured content", "everything", "get-structured-content", '{"location":"Chicago"}'],
    ["annotated content", "everything", "get-annotated-message", '{"messageType":"error","includeImage":true}'],
    ["resource links", "everything", "get-resource-links", '{"count":3}'],
    ["a tool error (isError)", "everything", "get-sum", '{"a":"two"}'],
    ["a tool error of another server", "filesystem", "read_text_file", '{"path":"/etc/passwd"}'],
  ];
  for (const [what, server, tool, args] of cases) {
    await report.check(`${what}: the result is the server's own`, async () => {
      const rest = ',"_meta":{"example.com/trace":"00-4bf9"}';
      const want = await direct[server].request("tools/call", callParams(tool, args, rest));
      const got = await main.request("tools/call", callParams(prefix(server) + tool, args, rest));
      assert(want.value.result, `the server itself answers ${want.raw}`);
      if (what.includes("isError")) assert(want.value.result.isError === true, "the server itself reports no error");
      equal(tokens(member(got.raw, "result")), tokens(member(want.raw, "result")), "result");
      return `${member(want.raw, "result").length} bytes`;
    });
  }
}

async function requestAsWritten({ report, main, tapped }) {
  await report.check("arguments, _meta and unknown members reach the server unchanged", async () => {
    const id = '"an id \\u00e9"';
    const params = callParams(
      prefix("everything") + "echo", '{"message":"tap 1","big":9007199254740993,"float":1.0,"nested":{"b":1e400,"a":[]}}',
      ',"_meta":{"example.com/n":12345678901234567890,"traceparent":"00-1"},"example.com/unknown":{"x":-0.0}',
    );
    const answer = await main.answer(main.start("tools/call", params, id));
    equal(member(answer.raw, "id"), id, "id in the answer");
    const seen = tapped().find((l) => l.raw.includes('"tap 1"'));
    equal(tokens(seen.params), tokens(replace(params, "name", '"echo"')), "params");
    assert(Number.isInteger(seen.value.id), `id upstream: ${seen.value.id}`);
  });
}

async function progress({ report, main, direct }) {
  const args = '{"duration":0.4,"steps":5}';
  for (const token of ['"token-1"', "7", '"7"', "9007199254740993"]) {
    await report.check(`progress with token ${token}: complete, increasing, before the result`, async () => {
      const run = async (client, name) => {
        const from = client.messages.length;
        const id = client.start("tools/call", callParams(name, args, `,"_meta":{"progressToken":${token}}`));
        const result = await client.answer(id, { from });
        const until = client.messages.indexOf(result);
        return { result, from, until, notes: notes(client, from, until, token) };
      };
      const got = await run(main, prefix("everything") + "trigger-long-running-operation");
      equal(got.notes.map((n) => n.progress).join(), "1,2,3,4,5", "progress before the result");
      // A JavaScript server does not accept a number of that size.
      if (!token.startsWith("9007")) {
        const want = await run(direct.everything, "trigger-long-running-operation");
        equal(got.notes.map((n) => tokens(n.raw)).join(), want.notes.map((n) => tokens(n.raw)).join(), "notifications");
        equal(tokens(member(got.result.raw, "result")), tokens(member(want.result.raw, "result")), "result");
      }
      await main.request("ping");
      equal(notes(main, got.until, main.messages.length, token).length, 0, "notifications after the result");
      return `${got.notes.length} notifications`;
    });
  }
}

// notes returns the params of progress notifications with a token (raw JSON) among
// the messages from one index to another.
export function notes(client, from, to, token) {
  return client.messages.slice(from, to)
    .filter((m) => m.value.method === "notifications/progress")
    .map((m) => ({ ...m.value.params, raw: member(m.raw, "params") }))
    .filter((p) => member(p.raw, "progressToken") === token);
}

async function severalAtOnce({ report, main }) {
  await report.check("twenty calls at once, ids and tokens kept apart", async () => {
    const from = main.messages.length;
    const ids = [];
    for (let i = 0; i < 20; i++) {
      const rest = `,"_meta":{"progressToken":"t${i}"}`;
      // Each number is an id twice: 1000 and "1000" are different requests.
      const id = i % 2 ? `"${999 + i}"` : `${1000 + i}`;
      const slow = i % 4 === 0;
      const name = prefix("everything") + (slow ? "trigger-long-running-operation" : "echo");
      const args = slow ? `{"duration":0.3,"steps":${i + 1}}` : `{"message":"number ${i}"}`;
      ids.push({ i, slow, id: main.start("tools/call", callParams(name, args, rest), id) });
    }
    for (const { i, slow, id } of ids) {
      const { value } = await main.answer(id, { from });
      const text = value.result.content[0].text;
      assert(text.includes(slow ? `Steps: ${i + 1}.` : `number ${i}`), `answer to ${id}: ${text}`);
      const got = notes(main, from, main.messages.length, `"t${i}"`).length;
      equal(got, slow ? i + 1 : 0, `notifications of ${id}`);
    }
  });
}

async function errors({ report, main }) {
  await report.check("an unknown tool is a protocol error, -32602", async () => {
    for (const name of ["no_such_tool", prefix("everything") + "no-such-tool", prefix("nowhere") + "echo"]) {
      const { value, raw } = await main.call(name);
      equal(value.error?.code, -32602, raw);
      assert(value.error.message.includes(name), `does not name the tool: ${value.error.message}`);
    }
  });
  await report.check("malformed requests get the protocol's errors, and the session continues", async () => {
    const from = main.messages.length;
    const codes = async (line, id, code) => {
      main.write(line);
      const { value } = await main.wait(`error ${code}`, (m) => m.error?.code === code && (m.id ?? null) === id, { from });
      assert(value.error.message, "an error without message");
    };
    await codes("{not json", null, -32700);
    await codes('{"jsonrpc":"2.0","id":"bad-1","method":"no/such/method"}', "bad-1", -32601);
    await codes('{"jsonrpc":"2.0","id":"bad-2","method":"tools/call","params":{"name":5}}', "bad-2", -32602);
    await codes('{"jsonrpc":"2.0","id":"bad-3","method":"tools/call","params":[]}', "bad-3", -32602);
    equal(JSON.stringify((await main.request("ping")).value.result), "{}", "ping");
  });
}

async function files({ setup, report, main }) {
  await report.check("a file is written and read back through the filesystem server", async () => {
    const path = join(setup.files, "written.txt");
    const content = "line one\nzwei: ü\n";
    const wrote = await main.call(prefix("filesystem") + "write_file", { path, content });
    assert(!wrote.value.result.isError, wrote.raw);
    equal(readFileSync(path, "utf8"), content, "the file");
    const read = await main.call(prefix("filesystem") + "read_text_file", { path });
    equal(read.value.result.content[0].text, content, "text read");
  });
  await report.check("entities are created in and read from the memory server", async () => {
    const entity = { name: "metatool", entityType: "program", observations: ["joins servers"] };
    const made = await main.call(prefix("memory") + "create_entities", { entities: [entity] });
    assert(!made.value.result.isError, made.raw);
    const graph = await main.call(prefix("memory") + "read_graph");
    equal(JSON.stringify(graph.value.result.structuredContent.entities), JSON.stringify([entity]), "entities");
  });
}
