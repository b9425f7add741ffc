// Says which clients of the TypeScript SDKs refuse lists. Reads lines of JSON with the members
// "list" and "item" (raw text), and prints for each a list of the clients that refuse a list of
// that one item:
//
//	node typescript.js NODE_MODULES <items >verdicts

import { createInterface } from "node:readline";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const from = (path) => import(pathToFileURL(join(process.argv[2], "@modelcontextprotocol", path)));
const one = await from("sdk/dist/esm/client/index.js");
const two = await from("client/dist/index.mjs");
console.warn = console.error = () => {}; // what Ajv says of formats

const members = { tools: "tools/list", resources: "resources/list", templates: "resources/templates/list", prompts: "prompts/list" };
const calls = { tools: "listTools", resources: "listResources", templates: "listResourceTemplates", prompts: "listPrompts" };
const capabilities = { tools: {}, resources: {}, prompts: {} };

// fake is a transport with a server that lists one item.
function fake(list, item, revision) {
  const name = list === "templates" ? "resourceTemplates" : list;
  const modern = revision >= "2026";
  const of = (message) => {
    switch (message.method) {
      case "initialize":
        return modern ? undefined : JSON.stringify({ protocolVersion: revision, capabilities, serverInfo: { name: "s", version: "1" } });
      case "server/discover":
        if (!modern) return undefined;
        return JSON.stringify({ resultType: "complete", supportedVersions: [revision], capabilities, ttlMs: 0, cacheScope: "private",
          _meta: { "io.modelcontextprotocol/serverInfo": { name: "s", version: "1" } } });
      case members[list]:
        return `{${modern ? '"resultType":"complete","ttlMs":0,"cacheScope":"private",' : ""}"${name}":[${item}]}`;
    }
    return undefined;
  };
  return {
    async start() {},
    async close() {
      this.onclose?.();
    },
    async send(message) {
      if (message.id === undefined) return;
      const result = of(message);
      const answer = result === undefined
        ? `{"jsonrpc":"2.0","id":${JSON.stringify(message.id)},"error":{"code":-32601,"message":"no"}}`
        : `{"jsonrpc":"2.0","id":${JSON.stringify(message.id)},"result":${result}}`;
      queueMicrotask(() => this.onmessage?.(JSON.parse(answer)));
    },
  };
}

const clients = {
  "typescript-1": ["2025-11-25", () => new one.Client({ name: "c", version: "1" })],
  "typescript-2": ["2025-11-25", () => new two.Client({ name: "c", version: "1" }, { versionNegotiation: { mode: "legacy" } })],
  "typescript-2-stateless": ["2026-07-28", () => new two.Client({ name: "c", version: "1" }, { versionNegotiation: { mode: { pin: "2026-07-28" } } })],
};

for await (const line of createInterface({ input: process.stdin })) {
  const { list, item } = JSON.parse(line);
  const refused = [];
  for (const [name, [revision, make]] of Object.entries(clients)) {
    const client = make();
    await client.connect(fake(list, item, revision));
    try {
      const got = await client[calls[list]]();
      if (Object.values(got).find(Array.isArray)?.length !== 1) throw new Error("the item is missing");
    } catch (err) {
      refused.push(name);
      if (process.env.WHY) process.stderr.write(`${name}: ${item}: ${err.message}\n`);
    }
    await client.close();
  }
  console.log(JSON.stringify(refused));
}
