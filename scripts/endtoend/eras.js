// Servers built with three SDKs, in both eras of the protocol, behind the binary, which
// is used by a host of each era.

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Host, revisions } from "./host.js";
import { freePort } from "./listening.js";
import { assert, equal, none, until } from "./report.js";

const typescript = fileURLToPath(new URL("servers/typescript.js", import.meta.url));

// eraServers has functions of a value of the key protocol, which give the table of an
// upstream over stdio.
export function eraServers(setup) {
  const bin = join(setup.modules, "..", "bin");
  const server = (command, ...args) => (protocol) => ({ command, args, ...(protocol ? { protocol } : {}) });
  return {
    gosdk: server(join(bin, "gosdk")),
    mcpgo: server(join(bin, "mcpgo")),
    typescript: server(process.execPath, typescript, setup.modules),
  };
}

// overHTTP are servers over HTTP; start takes a port. The one with sessions speaks
// only the older era, and the last one only the newer one.
const overHTTP = [
  { name: "gosdk_sessions", start: (bin, port) => [join(bin, "gosdk"), ["-http", `127.0.0.1:${port}`]] },
  { name: "gosdk_stateless", start: (bin, port) => [join(bin, "gosdk"), ["-stateless", "-http", `127.0.0.1:${port}`]] },
  { name: "mcpgo_http_legacy", protocol: "legacy", start: (bin, port) => [join(bin, "mcpgo"), ["-http", `127.0.0.1:${port}`]] },
  { name: "mcpgo_http", start: (bin, port) => [join(bin, "mcpgo"), ["-http", `127.0.0.1:${port}`]] },
  { name: "typescript_http", start: (_, port, modules) => [process.execPath, [typescript, modules, `${port}`]] },
];

// eras has both hosts use the same store. A server over stdio with "auto" is spoken to in
// the older era, except by a host of the newer one after a probe.
export async function eras({ setup, report }) {
  for (const era of ["legacy", "modern"]) {
    const { upstreams, processes } = await all(setup);
    const config = setup.configure("eras", upstreams);
    await report.check(`${Object.keys(upstreams).length} servers are spoken to as configured, ${era === "legacy" ? "at first" : "and after a probe"}`, () =>
      compared(setup, config, (name) => expected(name, false)));
    const handlers = { "elicitation/create": ({ mode }) => (mode === "url" ? { action: "accept" } : { action: "accept", content: { name: "Ann" } }) };
    const host = new Host(era, setup.binary, ["serve", "--config", config], { env: setup.env, cwd: setup.dir, capabilities: { elicitation: { form: {}, url: {} } }, handlers });
    host.client.viaBinary = true; // its output is checked at the end
    setup.clients.push(host.client);
    try {
      await host.open();
      for (const name of Object.keys(upstreams)) {
        await report.check(`${name}: a ${era} host uses what it offers`, () => used(host, name, expected(name, era === "modern")));
      }
      await report.check(`a ${era} host is told of new tools of ${Object.keys(upstreams).length} servers`, () => grown(host, Object.keys(upstreams)));
      if (era === "legacy") await report.check("a probe finds the newer era wherever it is spoken", () => compared(setup, config, (name) => (name.endsWith("_sessions") ? "" : revisions.modern), "--protocol"));
    } finally {
      await host.close();
      for (const process of processes) await process.stop();
    }
  }
}

// expected tells in which revision a server is spoken to.
function expected(name, probed) {
  if (/_(legacy|sessions)$/.test(name)) return revisions.legacy;
  return name.endsWith("_auto") && !probed ? revisions.legacy : revisions.modern;
}

// compared runs the command servers, and compares the revisions that it shows.
function compared(setup, config, want, ...flags) {
  const { stdout, stderr } = setup.run("servers", "--json", ...flags, "--config", config);
  assert(stdout, stderr);
  const { servers } = JSON.parse(stdout);
  none("other revisions", servers
    .map((server) => ({ name: server.name ?? server.server, found: (flags.length ? server.found : server.protocolVersion) ?? "" }))
    .filter(({ name, found }) => found !== want(name))
    .map(({ name, found }) => `${name}: ${found}`));
  return `${servers.length} servers`;
}

// all starts the servers over HTTP, and returns the tables of all upstreams.
async function all(setup) {
  const upstreams = {};
  for (const [name, server] of Object.entries(eraServers(setup))) {
    for (const [as, protocol] of [["legacy", "legacy"], ["modern", "2026-07-28"], ["auto", "auto"]]) upstreams[`${name}_${as}`] = server(protocol);
  }
  const processes = [];
  for (const { name, start, protocol = "auto" } of overHTTP) {
    const port = await freePort();
    const [command, args] = start(join(setup.modules, "..", "bin"), port, setup.modules);
    processes.push(await setup.listen(port, command, args, name).ready());
    upstreams[name] = { url: `http://127.0.0.1:${port}/mcp`, protocol };
  }
  return { upstreams, processes };
}

const text = ({ content, isError }) => `${isError ? "error: " : ""}${content.map((c) => c.text).join("\n")}`;

// used calls everything that a server offers with which a revision is spoken.
async function used(host, name, revision) {
  const from = host.client.messages.length;
  const call = async (tool, args = {}, meta = {}) => text(await host.result("tools/call", { name: `${name}__${tool}`, arguments: args, _meta: meta }));
  equal(await call("echo", { text: "hi" }), "said: hi", "echo");
  equal(await call("ask"), "accept, Ann", "its question");
  equal(await call("count", { to: 3 }, { progressToken: name }), "counted to 3", "count");
  const got = host.client.messages.slice(from).map(({ value }) => value);
  const progress = got.filter(({ params }) => params?.progressToken === name).map(({ params }) => params.progress);
  // mcp-go sends progress in any order, also after the result, when it is dropped.
  if (!name.startsWith("mcpgo")) equal(progress.join(), "1,2,3", "progress");
  equal(new Set(progress).size, progress.length, `different values of ${progress}`);
  if (name.startsWith("typescript")) await visits(host, name, revision, call);
  equal((await host.result("resources/read", { uri: `e2e://${name}/note` })).contents[0].text, "a note", "resource");
  equal((await host.result("prompts/get", { name: `${name}__greet`, arguments: { name: "Bea" } })).messages[0].content.text, "Greet Bea", "prompt");
  none("questions or results of another era", wrong(host, revision, from));
}

// visits sends the user to pages. A server of the newer era asks again until the page has
// been visited; a host of the older era is asked once, and told of the end.
async function visits(host, name, revision, call) {
  const from = host.client.messages.length;
  equal(await call("visit"), "accept, visited", "a page to visit");
  const got = host.client.messages.slice(from).map(({ value }) => value);
  if (host.era === "legacy" && revision === revisions.modern) {
    const ids = got.filter(({ method }) => method === "elicitation/create").map(({ params }) => params.elicitationId);
    const over = got.filter(({ method }) => method === "notifications/elicitation/complete").map(({ params }) => params.elicitationId);
    equal(ids.length, 1, "how often the user is sent to the page");
    equal(over.join(), ids.join(), "the visits that are over");
  }
  if (revision === revisions.modern) return;
  if (host.era === "legacy") {
    const { error } = (await host.request("tools/call", { name: `${name}__login`, arguments: {} })).value;
    equal(`${error?.code} ${error?.data?.elicitations?.[0]?.elicitationId}`, "-32042 login", "a page to log in");
  }
  equal(await call("login"), "logged in", "after the visit");
}

// wrong lists messages that a host of this era must not get: requests, or members of
// results that only newer revisions have. A server of the older era may send such
// members; what it sends is not changed.
function wrong(host, revision, from) {
  const newer = revision === revisions.modern;
  const members = newer ? ["resultType", "ttlMs", "cacheScope", "requestState"] : ["resultType"];
  const is = host.era === "modern"
    ? ({ value }) => "id" in value && value.method
    : ({ value: { result } }) => result && (members.some((member) => member in result) || (newer && result._meta));
  return host.client.messages.slice(from).filter(is).map(({ raw }) => raw.slice(0, 200));
}

// grown adds a tool at each server, and waits until all are listed after a notification.
async function grown(host, names) {
  const listening = host.era === "legacy" ? undefined : await host.listen({ toolsListChanged: true });
  const told = (from) => host.client.messages.slice(from).filter(({ value }) => value.method === "notifications/tools/list_changed");
  const from = host.client.messages.length;
  for (const name of names) equal(text(await host.result("tools/call", { name: `${name}__grow`, arguments: {} })), "grew", name);
  let missing;
  await until(15_000, "all new tools are listed", async () => {
    const listed = (await host.result("tools/list")).tools.map((tool) => tool.name);
    missing = names.filter((name) => !listed.includes(`${name}__grown`));
    return missing.length === 0;
  }).catch((err) => assert(false, `${err.message}: not ${missing}`));
  await until(5000, "a notification", () => told(from).length > 0);
  const tags = told(from).map(({ value }) => value.params?._meta?.["io.modelcontextprotocol/subscriptionId"]);
  assert(tags.every((tag) => tag === listening), `subscription ids: ${tags}, not ${listening}`);
  return `${tags.length} notifications`;
}
