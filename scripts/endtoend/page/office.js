// An MCP server over stdio with many tools that look like those of an office: node
// office.js NAME [TOOLS]. Its tools only answer that they were called.

import { createInterface } from "node:readline";

const [name, most = "60"] = process.argv.slice(2);
const things = ["ticket", "comment", "label", "milestone", "project", "user", "team", "attachment", "report", "calendar_event"];
const verbs = {
  list: ["Lists every THING that fits a filter, the newest first.", { readOnlyHint: true }],
  get: ["Returns one THING with all that belongs to it.", { readOnlyHint: true }],
  search: ["Searches in the text of every THING.", { readOnlyHint: true }],
  create: ["Creates a THING.", { destructiveHint: false }],
  update: ["Changes a THING.", { destructiveHint: true, idempotentHint: true }],
  delete: ["Deletes a THING. It cannot be restored.", { destructiveHint: true }],
};
const properties = {
  id: { type: "string", description: "Its id." },
  query: { type: "string", description: "Words that must occur." },
  limit: { type: "integer", minimum: 1, maximum: 100, default: 20, description: "How many at most." },
};
const tools = things.flatMap((thing) => Object.entries(verbs).map(([verb, [description, annotations]]) => ({
  name: `${verb}_${thing}`, description: description.replace("THING", thing.replace("_", " ")), annotations, inputSchema: { type: "object", properties },
}))).slice(0, Number(most));

const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  switch (method) {
    case "initialize":
      send({ id, result: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name, version: "2.4.1" } } });
      break;
    case "tools/list": send({ id, result: { tools } }); break;
    case "tools/call": send({ id, result: { content: [{ type: "text", text: `called ${params.name}` }] } }); break;
    case "ping": send({ id, result: {} }); break;
    default:
      if (id !== undefined) send({ id, error: { code: -32601, message: "no such method" } });
  }
});
