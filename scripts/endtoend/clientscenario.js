// The command that the conformance suite starts for one of its client scenarios. It
// is a host that has the binary between itself and the suite's server:
//
//	node clientscenario.js BINARY ERA URL
//
// ERA is the host's: legacy or modern. What the scenario wants is in the environment.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Host } from "./host.js";
import { builtins } from "./lists.js";
import { Tap } from "./tap.js";

// scenarios by name: what a user of the host does. Those without an entry want the
// tools to be listed.
const scenarios = {
  tools_call: (host) => host.result("tools/call", { name: "add_numbers", arguments: { a: 5, b: 3 } }),
  "elicitation-sep1034-client-defaults": elicited,
  "sse-retry": (host) => host.result("tools/call", { name: "test_reconnection", arguments: {} }),
  "json-schema-2020-12-preservation": echoSchema,
  "sep-2322-client-request-state": rounds,
  "http-standard-headers": everything,
  "http-custom-headers": given,
  "http-invalid-tool-headers": allTools,
};

// filledIn is what a person enters who accepts the defaults of a form and says yes.
function filledIn({ requestedSchema }) {
  const entered = ({ type, ...schema }) => schema.default ?? (type === "boolean" ? true : undefined);
  return Object.fromEntries(Object.entries(requestedSchema?.properties ?? {}).map(([name, schema]) => [name, entered(schema)]));
}

const handlers = {
  "elicitation/create": (params) => ({ action: "accept", content: filledIn(params) }),
  "roots/list": () => ({ roots: [{ uri: "file:///e2e", name: "root of e2e" }] }),
  "sampling/createMessage": () => ({ role: "assistant", model: "e2e", stopReason: "endTurn", content: { type: "text", text: "sampled" } }),
};

const capabilities = { elicitation: {}, sampling: {}, roots: {} };

// elicited waits until the binary listens to the server, because the suite's server
// asks on that stream, and drops the question if nobody listens.
async function elicited(host, _tools, _context, tap) {
  await tap.listening;
  await host.result("tools/call", { name: "test_client_elicitation_defaults", arguments: {} });
}

async function echoSchema(host, tools) {
  const { inputSchema } = tools.find(({ name }) => name === "json_schema_2020_12_tool");
  await host.result("tools/call", { name: "json_schema_echo", arguments: { schema: inputSchema } });
}

async function rounds(host) {
  for (const name of ["echo_state", "no_state", "unrelated", "no_result_type"]) {
    await host.result("tools/call", { name: `test_mrtr_${name}`, arguments: {} });
  }
}

async function everything(host, tools) {
  for (const { name } of tools) await host.result("tools/call", { name, arguments: {} });
  for (const { uri } of (await host.result("resources/list")).resources) await host.result("resources/read", { uri });
  for (const { name } of (await host.result("prompts/list")).prompts) await host.result("prompts/get", { name, arguments: {} });
}

async function given(host, _, { toolCalls = [] }) {
  for (const { name, arguments: args } of toolCalls) await host.result("tools/call", { name, arguments: args });
}

async function allTools(host, tools) {
  for (const { name } of tools) await host.result("tools/call", { name, arguments: { region: "us-west1" } });
}

async function main([binary, era, url]) {
  const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
  const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");
  const dir = mkdtempSync(join(tmpdir(), "mcp-metatool-scenario-"));
  const config = join(dir, "config.toml");
  const tap = scenario === "elicitation-sep1034-client-defaults" && (await Tap.of(new URL(url).port));
  if (tap) url = `http://127.0.0.1:${tap.port}/mcp`;
  writeFileSync(config, `startup_wait = "60s"\n[store]\ndir = ${JSON.stringify(dir)}\n[upstream.server]\nurl = ${JSON.stringify(url)}\nprefix = ""\n`);
  const host = new Host(era, binary, ["serve", "--config", config], { cwd: dir, capabilities, handlers });
  try {
    await host.open();
    const { tools } = await host.result("tools/list");
    await scenarios[scenario]?.(host, tools.filter(({ name }) => !builtins.includes(name)), context, tap);
  } finally {
    await host.close();
    process.stderr.write(host.client.stderr);
    tap?.close?.();
    rmSync(dir, { recursive: true, force: true });
  }
}

main(process.argv.slice(2)).catch((err) => {
  console.error(err.stack);
  process.exitCode = 1;
});
