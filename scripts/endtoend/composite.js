// Saved tools: scripts that combine servers, from saving to deleting.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { notes } from "./calls.js";
import { assert, equal } from "./report.js";

export const inventory = {
  name: "file_inventory",
  description: "Notes the files of a directory in the knowledge graph",
  inputSchema: {
    type: "object",
    properties: { dir: { type: "string" }, limit: { type: "integer", minimum: 1 } },
    required: ["dir"],
  },
  code: `
listing = filesystem.list_directory({"path": params.dir})
names = sorted([line[7:] for line in listing.content.splitlines() if line.startswith("[FILE] ")])
print("found", len(names), "files")
made = memory.create_entities(entities = [
    {"name": n, "entityType": "file", "observations": ["in " + params.dir]} for n in names[:params.get("limit", 100)]
])
return {"files": names, "created": len(made.entities)}
`.trimStart(),
};

export const count = (client, method) => client.messages.filter((m) => m.value.method === method).length;

const changed = "notifications/tools/list_changed";
const text = (answer) => answer.value.result.content[0].text;
const structured = (answer) => answer.value.result.structuredContent;

function succeeded(answer) {
  assert(answer.value.result && !answer.value.result.isError, `failed: ${answer.raw.slice(0, 600)}`);
  return answer;
}

function failed(answer, type) {
  assert(answer.value.result?.isError === true, `did not fail: ${answer.raw.slice(0, 600)}`);
  equal(structured(answer).error.type, type, `type of ${text(answer)}`);
  return structured(answer);
}

export async function composites(context) {
  await save(context);
  await call(context);
  await mistakes(context);
  await remove(context);
}

async function save({ report, main }) {
  await report.check("save_tool: announced, and listed beside the servers' tools", async () => {
    const from = main.messages.length;
    succeeded(await main.call("save_tool", inventory));
    await main.wait(changed, (m) => m.method === changed, { from });
    const definition = (await main.definitions()).find((d) => d.name === inventory.name);
    assert(definition, "the tool is not in tools/list");
    const { description, inputSchema } = JSON.parse(definition.raw);
    equal(description, inventory.description, "description");
    equal(JSON.stringify(inputSchema), JSON.stringify(inventory.inputSchema), "inputSchema");
  });
  await report.check("list_saved_tools and show_saved_tool know it", async () => {
    assert(JSON.stringify(structured(succeeded(await main.call("list_saved_tools")))).includes(inventory.name), "not in the list");
    const shown = JSON.stringify(succeeded(await main.call("show_saved_tool", { name: inventory.name })).value.result);
    assert(shown.includes("create_entities"), `the code is not shown: ${shown}`);
  });
}

async function call({ setup, report, main, tapped }) {
  await report.check("a script joins two servers: {result, logs, executionTime, toolCalls}", async () => {
    const from = main.messages.length;
    const params = { name: inventory.name, arguments: { dir: setup.files }, _meta: { progressToken: "joined", "example.com/trace": "composite" } };
    const answer = succeeded(await main.request("tools/call", params));
    const { result, logs, executionTime, toolCalls } = structured(answer);
    equal(JSON.stringify(result), JSON.stringify({ files: ["a.txt", "b.txt", "written.txt"], created: 3 }), "result");
    equal(text(answer), JSON.stringify(result), "text");
    equal(JSON.stringify(logs), '["found 3 files"]', "logs");
    assert(typeof executionTime === "number" && executionTime > 0, `executionTime: ${executionTime}`);
    equal(toolCalls.map((c) => `${c.server}.${c.tool}`).join(), "filesystem.list_directory,memory.create_entities", "toolCalls");
    equal(JSON.stringify(toolCalls[0].params), JSON.stringify({ path: setup.files }), "params of the first call");
    assert(JSON.stringify(toolCalls[0].result).includes("written.txt"), "result of the first call is missing");
    const steps = notes(main, from, main.messages.indexOf(answer), '"joined"').map((n) => n.progress);
    assert(steps.length >= 2 && steps.every((s, i) => i === 0 || s > steps[i - 1]), `progress: ${steps}`);
    return `${executionTime} ms, progress ${steps}`;
  });
  await report.check("the servers did what the script said", async () => {
    const graph = await main.call("memory__read_graph");
    const files = structured(graph).entities.filter((e) => e.entityType === "file").map((e) => e.name);
    equal(files.join(), "a.txt,b.txt,written.txt", "entities");
  });
  await report.check("arguments are converted if that loses nothing", async () => {
    const { result } = structured(succeeded(await main.call(inventory.name, { dir: setup.files, limit: "1" })));
    equal(result.files.length, 3, "files");
  });
  await report.check("eval_starlark: a result of one server goes to another, progress and _meta go with it", async () => {
    const path = join(setup.files, "joined.txt");
    const code = `
said = everything.echo(message = params["words"])
everything.trigger_long_running_operation({"duration": 1.8, "steps": 36})
filesystem.write_file({"path": params.path, "content": said})
return said`;
    const from = main.messages.length;
    const meta = { progressToken: 77, "example.com/trace": "via script" };
    const params = { name: "eval_starlark", arguments: { code, params: { words: "from script", path } }, _meta: meta };
    const answer = succeeded(await main.request("tools/call", params));
    equal(readFileSync(path, "utf8"), structured(answer).result, "the file");
    const steps = notes(main, from, main.messages.indexOf(answer), "77").map((n) => n.progress);
    assert(steps.every((s, i) => i === 0 || s > steps[i - 1]), `progress: ${steps}`);
    // Of the 36 steps of one call, one is sent each half second; the last one is always sent.
    assert(steps.length >= 4 && steps.length < 12 && steps.some((s) => !Number.isInteger(s)) && steps.at(-1) === 3, `progress: ${steps}`);
    const seen = tapped().find((l) => l.raw.includes('"from script"')).value.params;
    equal(seen._meta["example.com/trace"], "via script", "_meta upstream");
    return `progress ${steps}`;
  });
}

async function mistakes({ report, main }) {
  await report.check("a failing tool call fails the script, and the error names it", async () => {
    const code = 'print("before")\nreturn filesystem.read_text_file(path = "/nowhere/at/all")';
    const { error, logs, toolCalls } = failed(await main.call("eval_starlark", { code }), "tool");
    assert(/filesystem/.test(error.message) && /read.text.file/.test(error.message), `message: ${error.message}`);
    equal(JSON.stringify(logs), '["before"]', "logs");
    equal(toolCalls.length, 1, "toolCalls");
  });
  await report.check("wrong arguments are refused, all of them named", async () => {
    const { error } = failed(await main.call(inventory.name, { limit: 0 }), "validation");
    const said = JSON.stringify(error);
    assert(said.includes("dir") && said.includes("/limit"), said);
  });
  await report.check("a script with a syntax error, a bad name and a taken name are refused", async () => {
    const bad = async (change, pattern) => {
      const { value, raw } = await main.call("save_tool", { ...inventory, ...change });
      assert(value.result?.isError === true, `was saved: ${raw}`);
      assert(pattern.test(JSON.stringify(value.result)), raw);
    };
    await bad({ name: "broken", code: "x = 1\ny = = 2" }, /2:5/);
    await bad({ name: "not a name" }, /not a name/);
    await bad({ name: "everything__echo" }, /everything/);
    await bad({ name: "bad_schema", inputSchema: { type: "no such type" } }, /schema/i);
  });
  await report.check("a script can reach nothing but tools", async () => {
    for (const code of ['load("x.star", "y")', 'return open("/etc/passwd")', "import os", "return nowhere.echo()", "return everything.no_such_tool()"]) {
      const { value, raw } = await main.call("eval_starlark", { code });
      assert(value.result?.isError === true, `${code}: ${raw}`);
    }
  });
}

async function remove({ report, main }) {
  await report.check("delete_saved_tool: announced, gone from tools/list, unknown when called", async () => {
    const from = main.messages.length;
    succeeded(await main.call("delete_saved_tool", { name: inventory.name }));
    await main.wait(changed, (m) => m.method === changed, { from });
    assert(!(await main.definitions()).some((d) => d.name === inventory.name), "still in tools/list");
    equal((await main.call(inventory.name, { dir: "/" })).value.error?.code, -32602, "code");
  });
}
