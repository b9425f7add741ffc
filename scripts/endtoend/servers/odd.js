// A server of the handshake era over stdio that lists each item of a table
// (host/mcp/strict/testdata/items.txt), and answers every call with its name:
//
//	node odd.js TABLE

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const members = { tools: "tools", resources: "resources", templates: "resourceTemplates", prompts: "prompts" };
const keys = { tools: "name", resources: "uri", templates: "uriTemplate", prompts: "name" };
const lists = Object.fromEntries(Object.values(members).map((name) => [name, []]));
for (const line of readFileSync(process.argv[2], "utf8").split("\n")) {
  const [, list, item] = line.match(/^(?:stateless )?(tools|resources|templates|prompts) (.*)$/) ?? [];
  if (!list) continue;
  const all = lists[members[list]];
  // All have keys of their own, so that none is left out for another one.
  const own = { name: `"name":"n${all.length}"`, uri: `"uri":"$1?${all.length}"`, uriTemplate: `"uriTemplate":"$1?${all.length}"` };
  const text = { name: /"name" ?: ?"[tp]?"/, uri: /"uri":"([^"]*)"/, uriTemplate: /"uriTemplate":"([^"]*)"/ };
  all.push(item.replace(text[keys[list]], own[keys[list]]));
}
const results = {
  initialize: `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":null},"prompts":true,"extensions":{"a/b":null}},"serverInfo":{"name":"odd","version":"1"}}`,
  ping: "{}",
  "tools/list": `{"tools":[${lists.tools}]}`,
  "resources/list": `{"resources":[${lists.resources}]}`,
  "resources/templates/list": `{"resourceTemplates":[${lists.resourceTemplates}]}`,
  "prompts/list": `{"prompts":[${lists.prompts}]}`,
};

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const result = method === "tools/call" ? JSON.stringify({ content: [{ type: "text", text: params.name }] }) : results[method];
  const answer = result ? `"result":${result}` : `"error":{"code":-32601,"message":"no ${method}"}`;
  process.stdout.write(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},${answer}}\n`);
});
