// Clients of the TypeScript SDKs list what there is next to a server with items that they refuse
// (servers/odd.js). listjudge/ asks such clients about each item by itself.

import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { assert, equal } from "./report.js";

const table = fileURLToPath(new URL("../../host/mcp/strict/testdata/items.txt", import.meta.url));

export async function odd({ setup, report }) {
  const from = (path) => import(pathToFileURL(join(setup.modules, "@modelcontextprotocol", path)));
  const [one, oneStdio] = [await from("sdk/dist/esm/client/index.js"), await from("sdk/dist/esm/client/stdio.js")];
  const [two, twoStdio] = [await from("client/dist/index.mjs"), await from("client/dist/stdio.mjs")];
  const info = { name: "e2e-odd", version: "1" };
  const { filesystem } = setup.upstreams("odd");
  const servers = { odd: { command: process.execPath, args: [fileURLToPath(new URL("servers/odd.js", import.meta.url)), table] }, filesystem };
  const config = setup.configure("odd", servers);
  const options = { command: setup.binary, args: ["--config", config], env: setup.env, cwd: setup.dir, stderr: "pipe" };
  const clients = {
    "SDK 1": [() => new one.Client(info), oneStdio.StdioClientTransport],
    "SDK 2": [() => new two.Client(info, { versionNegotiation: { mode: "legacy" } }), twoStdio.StdioClientTransport],
    "SDK 2, stateless": [() => new two.Client(info, { versionNegotiation: { mode: { pin: "2026-07-28" } } }), twoStdio.StdioClientTransport],
  };
  for (const [name, [make, Transport]] of Object.entries(clients)) {
    await report.check(`${name}: all lists are there`, async () => {
      const client = make();
      await client.connect(new Transport(options));
      try {
        const { tools } = await client.listTools();
        const names = tools.map((t) => t.name);
        for (const want of ["eval_starlark", "filesystem__read_text_file", "odd__n0"]) assert(names.includes(want), `no ${want} in ${names}`);
        const { resources } = await client.listResources();
        const { resourceTemplates } = await client.listResourceTemplates();
        const { prompts } = await client.listPrompts();
        for (const list of [resources, resourceTemplates, prompts]) assert(list.length > 1, `only ${JSON.stringify(list)}`);
        // A tool without an input schema is for scripts.
        const missing = tools.length && (await client.callTool({ name: "health_check", arguments: {} })).structuredContent;
        const { items } = missing.servers.find((s) => s.server === "odd");
        const left = items.find((i) => i.startsWith("tool") && i.includes("inputSchema is missing"))?.match(/"(n\d+)"/)?.[1];
        assert(left && !names.includes(`odd__${left}`), `nothing is left out: ${items}`);
        const used = await client.callTool({ name: "eval_starlark", arguments: { code: `return odd.${left}()` } });
        equal(used.structuredContent.result, left, "answer to a script");
        return `${tools.length} tools, ${resources.length} resources, ${prompts.length} prompts`;
      } finally {
        await client.close();
      }
    });
  }
}
