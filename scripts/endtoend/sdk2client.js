// The TypeScript client of SDK 2, which chooses an era of the protocol by its mode.
// Behind the binary are a server of each era.

import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { inventory } from "./composite.js";
import { eraServers } from "./eras.js";
import { assert, equal, until, within } from "./report.js";

const modes = [
  { mode: "legacy", revision: "2025-11-25" },
  { mode: "auto", revision: "2026-07-28" },
  { mode: { pin: "2026-07-28" }, revision: "2026-07-28" },
];

export async function sdk2Client({ setup, report }) {
  const sdk = await import(pathToFileURL(join(setup.modules, "@modelcontextprotocol/client/dist/index.mjs")));
  const stdio = await import(pathToFileURL(join(setup.modules, "@modelcontextprotocol/client/dist/stdio.mjs")));
  for (const over of ["stdio", "HTTP"]) {
    for (const { mode, revision } of modes) {
      const name = `sdk2-${over}-${mode.pin ? "pinned" : mode}`;
      const config = setup.configure(name, { ...setup.upstreams(name), gosdk: eraServers(setup).gosdk("2026-07-28") });
      const front = over === "HTTP" ? await setup.front(config) : undefined;
      const transport = front
        ? new sdk.StreamableHTTPClientTransport(new URL(front.url))
        : new stdio.StdioClientTransport({ command: setup.binary, args: ["--config", config], env: setup.env, cwd: setup.dir, stderr: "pipe" });
      await report.check(`${mode.pin ? "pinned" : mode}, over ${over}`, () => session(setup, new Session(sdk.Client, mode, transport, setup), revision));
      if (front) await front.stop();
    }
  }
}

// Session is a connected client.
class Session {
  problems = [];
  changes = 0;
  opened = []; // addresses

  constructor(Client, mode, transport, setup) {
    const capabilities = { sampling: {}, elicitation: { form: {}, url: {} }, roots: {} };
    const listChanged = { tools: { onChanged: () => void this.changes++ } };
    this.client = new Client({ name: "e2e-sdk2", version: "1" }, { capabilities, versionNegotiation: { mode }, listChanged });
    this.client.onerror = (err) => this.problems.push(err.message);
    this.client.setRequestHandler("elicitation/create", ({ params }) => {
      if (params.mode !== "url") return { action: "accept", content: { name: "Ann of e2e" } };
      this.opened.push(params.url);
      return { action: "accept" };
    });
    this.client.setRequestHandler("roots/list", () => ({ roots: [{ uri: `file://${setup.dir}`, name: "root of e2e" }] }));
    this.client.setRequestHandler("sampling/createMessage", () => ({ role: "assistant", model: "e2e", content: { type: "text", text: "sampled by e2e" } }));
    this.transport = transport;
  }

  call(name, args = {}, options) {
    return this.client.callTool({ name, arguments: args }, options);
  }

  // text calls a tool and returns the text of its result.
  async text(name, args, options) {
    const { content, isError } = await this.call(name, args, options);
    const said = content.map((c) => c.text).join("\n");
    assert(!isError, `${name}: ${said}`);
    return said;
  }
}

// session does everything that a client may do. It returns what was negotiated.
async function session(setup, s, revision) {
  await s.client.connect(s.transport);
  equal(s.client.getNegotiatedProtocolVersion(), revision, "revision");
  equal(s.client.getServerVersion()?.name, "mcp-metatool", "server");
  const names = (await s.client.listTools()).tools.map((t) => t.name);
  for (const name of ["eval_starlark", "everything__echo", "filesystem__read_text_file", "gosdk__ask"]) assert(names.includes(name), `no ${name}`);
  await calls(s);
  await questions(s);
  await addresses(s, revision);
  await surfaces(s);
  await saved(setup, s);
  await cancelled(s);
  if (s.transport.terminateSession && revision === "2025-11-25") await s.transport.terminateSession();
  const before = s.problems.length;
  await within(10_000, "close", s.client.close());
  // Progress that comes with the result, or after the client has cancelled, is what it
  // calls unknown. Its close aborts reading of streams, and it reports that.
  const expected = (p, i) => /unknown token|unknown message ID/i.test(p) || (i >= before && /abort/i.test(p));
  equal(s.problems.filter((p, i) => !expected(p, i)).join("; "), "", "problems");
  return `${names.length} tools`;
}

async function calls(s) {
  equal(await s.text("everything__get-sum", { a: 20, b: 22 }), "The sum of 20 and 22 is 42.", "sum");
  equal(await s.text("gosdk__echo", { text: "hi" }), "said: hi", "echo");
  equal((await s.call("everything__get-structured-content", { location: "New York" })).structuredContent.temperature, 33, "weather");
  equal((await s.call("filesystem__read_text_file", { path: "/nowhere/at/all" })).isError, true, "isError");
  for (const [name, args] of [["everything__trigger-long-running-operation", { duration: 0.6, steps: 4 }], ["gosdk__count", { to: 4 }]]) {
    const seen = [];
    // The client reports its answers to questions as progress too, and a server may
    // ask for roots at any time.
    await s.text(name, args, { onprogress: (p) => p.message?.startsWith("Fulfilling") || seen.push(p.progress) });
    // Its onprogress misses progress that arrives together with a result or questions.
    const rising = seen.every((p, i) => p <= 4 && (i === 0 || p > seen[i - 1]));
    assert(rising && (seen.length > 0 || name.startsWith("gosdk")), `progress of ${name}: ${seen}`);
  }
  const { structuredContent } = await s.call("eval_starlark", { code: 'return everything.get_sum(a=1, b=2).content' });
  assert(JSON.stringify(structuredContent).includes("is 3"), JSON.stringify(structuredContent));
}

// cancelled comes after the questions: for some seconds a question could be one of the
// cancelled call, and it is refused where several clients can be behind one credential.
async function cancelled(s) {
  const abort = new AbortController();
  const slow = s.call("everything__trigger-long-running-operation", { duration: 20, steps: 200 }, { signal: abort.signal, onprogress: () => abort.abort("enough") });
  const outcome = await slow.then(() => "was answered", (err) => `${err.message ?? err}`);
  assert(/enough|abort/i.test(outcome), outcome);
  equal(await s.text("everything__echo", { message: "on" }), "Echo: on", "the next call");
}

// questions are asked by a server of each era in mid-call.
async function questions(s) {
  equal(await s.text("gosdk__ask"), "accept, Ann of e2e", "the modern server's question");
  assert((await s.text("everything__trigger-elicitation-request")).includes("Ann of e2e"), "the legacy server's question");
  assert((await s.text("everything__trigger-sampling-request", { prompt: "say it" })).includes("sampled by e2e"), "the legacy server's sampling");
}

// addresses are to be opened by the user. The legacy server asks for one in mid-call, or
// fails with error -32042: a client of 2026-07-28 is asked instead, and calls again.
async function addresses(s, revision) {
  const tool = "everything__trigger-url-elicitation";
  const url = "https://example.com/e2e";
  assert((await s.text(tool, { url, elicitationId: "e-1" })).includes("User completed"), "the question for an address");
  equal(s.opened.join(), url, "opened");
  const refused = s.text(tool, { url, elicitationId: "e-2", errorPath: true });
  if (revision === "2026-07-28") {
    assert((await refused).includes("User completed"), "the call after the error");
    equal(s.opened.join(), [url, "https://modelcontextprotocol.io", url].join(), "opened after the error");
    return;
  }
  const err = await refused.then(() => undefined, (reason) => reason);
  equal(err?.code, -32042, `code of ${err?.message}`);
  equal(err.data.elicitations[0].url, "https://modelcontextprotocol.io", "address of the error");
}

async function surfaces(s) {
  const { resources } = await s.client.listResources();
  for (const uri of ["demo://resource/static/document/features.md", "e2e://gosdk/note"]) {
    assert(resources.some((r) => r.uri === uri), `${uri} is not among ${resources.map((r) => r.uri)}`);
    assert((await s.client.readResource({ uri })).contents[0].text, `${uri} is empty`);
  }
  assert((await s.client.listResourceTemplates()).resourceTemplates.length >= 2, "templates");
  const { messages } = await s.client.getPrompt({ name: "gosdk__greet", arguments: { name: "Ann" } });
  equal(messages[0].content.text, "Greet Ann", "prompt");
  const ref = { type: "ref/prompt", name: "everything__completable-prompt" };
  const { completion } = await s.client.complete({ ref, argument: { name: "department", value: "S" } });
  equal(completion.values.join(), "Sales,Support", "completion");
}

async function saved(setup, s) {
  const before = s.changes;
  await s.text("save_tool", inventory);
  await until(5000, "list_changed", () => s.changes > before);
  equal((await s.call(inventory.name, { dir: setup.files })).structuredContent.toolCalls.length, 2, "toolCalls");
  await s.text("delete_saved_tool", { name: inventory.name });
  await until(5000, "the second list_changed", () => s.changes > before + 1);
}
