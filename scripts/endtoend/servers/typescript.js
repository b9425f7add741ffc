// A server built with the TypeScript SDK 2, which offers what the Go programs next to
// it do. Over stdio it speaks both eras of the protocol, over HTTP only 2026-07-28:
//
//	node typescript.js NODE_MODULES [PORT]

import { createServer } from "node:http";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pathToFileURL } from "node:url";

const [modules, port] = process.argv.slice(2);
const sdk = (file) => import(pathToFileURL(join(modules, "@modelcontextprotocol/server/dist", file)));
const { McpServer, UrlElicitationRequiredError, acceptedContent, createMcpHandler, fromJsonSchema, inputRequired } = await sdk("index.mjs");

const text = (s) => ({ content: [{ type: "text", text: s }] });
const takes = (name, type) => fromJsonSchema({ type: "object", properties: { [name]: { type } }, required: [name] });
const form = { type: "object", properties: { name: { type: "string" } } };

let grown = false;
let repeated = 0; // calls of visit, with an answer
let loggedIn = false;
let changed = () => {}; // tells listeners of the tools over HTTP

function build() {
  const server = new McpServer({ name: "typescript", version: "1" }, { capabilities: { tools: { listChanged: true } } });
  const echo = (name) => server.registerTool(name, { description: "Say what was said", inputSchema: takes("text", "string") }, ({ text: said }) => text(`said: ${said}`));
  echo("echo");
  if (grown) echo("grown");
  server.registerTool("ask", { description: "Ask for a name and greet" }, (ctx) => {
    const answer = ctx.mcpReq.inputResponses?.name;
    if (answer) return text(`${answer.action}, ${acceptedContent(ctx.mcpReq.inputResponses, "name")?.name}`);
    return inputRequired({ inputRequests: { name: inputRequired.elicit({ message: "What is your name?", requestedSchema: form }) } });
  });
  // A page that the user has visited when the call has been repeated twice.
  server.registerTool("visit", { description: "Send the user to a page" }, (ctx) => {
    const answer = ctx.mcpReq.inputResponses?.page;
    if (answer && ++repeated % 2 === 0) return text(`${answer.action}, visited`);
    return inputRequired({ inputRequests: { page: inputRequired.elicitUrl({ url: "https://example.com/visit", message: "Visit the page" }) } });
  });
  // The same as the older era has it, where the call fails first.
  server.registerTool("login", { description: "Fail until the user has visited a page" }, () => {
    loggedIn = !loggedIn;
    if (!loggedIn) return text("logged in");
    throw new UrlElicitationRequiredError([{ mode: "url", url: "https://example.com/login", message: "Log in", elicitationId: "login" }], "log in first");
  });
  server.registerTool("count", { description: "Report progress to a number", inputSchema: takes("to", "integer") }, async ({ to }, ctx) => {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    for (let progress = 1; progressToken !== undefined && progress <= to; progress++) {
      await ctx.mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total: to } });
    }
    return text(`counted to ${to}`);
  });
  server.registerTool("grow", { description: "Add a tool" }, () => {
    grown = true;
    if (port) changed();
    else echo("grown");
    return text("grew");
  });
  server.registerResource("note", `e2e://${process.env.E2E_UPSTREAM}/note`, { mimeType: "text/plain" }, (uri) => ({ contents: [{ uri: uri.href, mimeType: "text/plain", text: "a note" }] }));
  server.registerPrompt("greet", { argsSchema: takes("name", "string") }, ({ name }) => ({ messages: [{ role: "user", content: { type: "text", text: `Greet ${name}` } }] }));
  return server;
}

function serveHTTP() {
  const handler = createMcpHandler(build, { legacy: "reject" });
  changed = () => handler.notify.toolsChanged();
  createServer(async (req, res) => {
    const abort = new AbortController();
    res.on("close", () => abort.abort());
    const body = req.method === "POST" ? { body: Readable.toWeb(req), duplex: "half" } : {};
    const request = new Request(`http://${req.headers.host}${req.url}`, { method: req.method, headers: req.headers, signal: abort.signal, ...body });
    const response = await handler.fetch(request);
    res.writeHead(response.status, Object.fromEntries(response.headers));
    if (!response.body) return res.end();
    res.flushHeaders();
    Readable.fromWeb(response.body).on("error", () => res.destroy()).pipe(res);
  }).listen(Number(port), "127.0.0.1");
}

if (port) serveHTTP();
else (await sdk("stdio.mjs")).serveStdio(build);
