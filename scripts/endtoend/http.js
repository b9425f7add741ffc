// The HTTP front end: sessions, refused requests, broken connections, shutdown.

import { request } from "node:http";
import { notes } from "./calls.js";
import { gone } from "./ending.js";
import { HttpClient } from "./httpclient.js";
import { assert, equal, until, within } from "./report.js";

const slow = "everything__trigger-long-running-operation";
const initialize =
  '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}}';
const ping = '{"jsonrpc":"2.0","id":7,"method":"ping"}';

export async function http(context) {
  const { setup } = context;
  const front = await setup.front(setup.configure("http", setup.upstreams("http"), "25s", { resume_window: "1s" }));
  await sessions(context, front);
  await refusals(context, front);
  await connections(context, front);
  await limits(context);
  await shutdown(context, front);
}

// send posts a body outside of any session.
async function send(url, body, headers = {}, method = "POST") {
  const response = await new Promise((resolve, reject) => {
    const all = { "Content-Type": "application/json", Accept: "application/json, text/event-stream", ...headers };
    request(url, { method, headers: all }, resolve).on("error", reject).end(body);
  });
  let text = "";
  for await (const chunk of response.setEncoding("utf8")) text += chunk;
  return { status: response.statusCode, headers: response.headers, text };
}

async function opened(front) {
  const client = new HttpClient(front.url, front);
  const { value, raw } = await client.initialize();
  assert(value.result, raw);
  return client;
}

async function sessions({ report }, front) {
  await report.check("sessions that use the same ids and tokens at once get their own messages", async () => {
    const clients = await Promise.all(Array.from({ length: 8 }, () => opened(front)));
    equal(new Set(clients.map((c) => c.session)).size, clients.length, "session ids");
    await Promise.all(clients.map(async (client, i) => {
      const from = client.messages.length;
      const params = `{"name":"${slow}","arguments":{"duration":0.4,"steps":${i + 1}},"_meta":{"progressToken":"same"}}`;
      const answer = await client.answer(client.start("tools/call", params, "1"), { from });
      assert(answer.value.result.content[0].text.includes(`Steps: ${i + 1}.`), answer.raw);
      equal(notes(client, from, client.messages.length, '"same"').map((n) => n.total).join(), Array(i + 1).fill(i + 1).join(), "progress");
    }));
    for (const client of clients) {
      equal(client.noise.concat(client.problems).join("; "), "", "problems");
      equal(await client.close(), 204, "status of DELETE");
    }
  });
  await report.check("an ended session is unknown (404); a request without a session id is refused (400)", async () => {
    const client = await opened(front);
    await client.close();
    equal((await send(front.url, ping, { "Mcp-Session-Id": client.session })).status, 404, "ended");
    equal((await send(front.url, ping, { "Mcp-Session-Id": "never-was" })).status, 404, "unknown");
    equal((await send(front.url, ping)).status, 400, "none");
  });
}

async function refusals({ report }, front) {
  await report.check("other origins and hosts are refused (403), unknown revisions (400), other methods (405)", async () => {
    const { host } = new URL(front.url);
    const status = async (headers, method) => (await send(front.url, initialize, headers, method)).status;
    equal(await status({ Origin: "http://evil.example.com" }), 403, "origin");
    equal(await status({ Host: "evil.example.com" }), 403, "host");
    equal(await status({ Origin: `http://${host}` }), 200, "our own origin");
    const client = await opened(front);
    const session = { "Mcp-Session-Id": client.session };
    equal((await send(front.url, ping, { ...session, "MCP-Protocol-Version": "1999-01-01" })).status, 400, "revision");
    equal((await send(front.url, ping, { ...session, "MCP-Protocol-Version": "2025-06-18" })).status, 200, "older revision");
    equal(await status({}, "PUT"), 405, "PUT");
    await client.close();
  });
}

async function connections({ setup, report }, front) {
  const steps = 40; // of 0.05 s each
  // begun starts a call on a connection that can be cut. It returns {socket, events}.
  const begun = async (client, token) => {
    const body = `{"jsonrpc":"2.0","id":"cut","method":"tools/call","params":{"name":"${slow}","arguments":{"duration":2,"steps":${steps}},"_meta":{"progressToken":"${token}"}}}`;
    const events = [];
    const response = await client.exchange("POST", { "Content-Type": "application/json" }, body);
    const read = (async () => {
      for await (const event of client.events(response)) events.push(event);
    })().catch(() => {}); // the connection is cut
    await until(10_000, "the first progress", () => events.some(({ data }) => data.includes(token)));
    return { cut: () => response.destroy(), events, read };
  };
  await report.check("a broken connection is resumed with Last-Event-ID: no event is lost or repeated", async () => {
    const client = await opened(front);
    const call = await begun(client, "resumed");
    call.cut();
    await call.read;
    const { id } = call.events.findLast((event) => event.id);
    const seen = call.events.map(({ data }) => data);
    const response = await client.exchange("GET", { Accept: "text/event-stream", "Last-Event-ID": id });
    equal(response.statusCode, 200, "status");
    for await (const { data } of client.events(response)) seen.push(data);
    const all = seen.filter(Boolean).map((data) => JSON.parse(data));
    equal(all.filter((m) => m.params).map((m) => m.params.progress).join(), Array.from({ length: steps }, (_, i) => i + 1).join(), "progress");
    equal(all.filter((m) => m.id === "cut").length, 1, "answers");
    await client.close();
    return `after event ${call.events.filter((e) => e.id).length}`;
  });
  await report.check("a broken connection that is not resumed cancels the call at the server", async () => {
    const client = await opened(front);
    const told = () => setup.tapped("http").filter(({ value }) => value.method === "notifications/cancelled");
    const before = told().length;
    const call = await begun(client, "abandoned");
    const id = setup.tapped("http").findLast(({ value }) => value.params?.name).value.id;
    call.cut();
    const [one] = await until(5000, "the server is told", () => told().length > before && told().slice(before));
    equal(one.value.params.requestId, id, "requestId");
    await client.close();
  });
  await report.check("the end of a session cancels its calls at the server", async () => {
    const client = await opened(front);
    const told = () => setup.tapped("http").filter(({ value }) => value.method === "notifications/cancelled").length;
    const before = told();
    const call = await begun(client, "ended");
    equal(await client.close(), 204, "status of DELETE");
    await until(5000, "the server is told", () => told() === before + 1);
    await within(5000, "end of the stream", call.read);
  });
}

async function limits({ setup, report }) {
  const settings = { tokens: ["${E2E_SECRET}"], max_sessions: 2, session_ttl: "1s" };
  const front = await setup.front(setup.configure("http-limits", {}, "25s", settings));
  const token = { Authorization: `Bearer ${setup.secret}` };
  const start = () => send(front.url, initialize, token);
  await report.check("a client without the token is refused (401)", async () => {
    for (const headers of [{}, { Authorization: "Bearer wrong" }, { Authorization: setup.secret }]) {
      const { status, headers: got } = await send(front.url, initialize, headers);
      equal(status, 401, JSON.stringify(headers));
      assert(/^Bearer/.test(got["www-authenticate"]), `WWW-Authenticate: ${got["www-authenticate"]}`);
    }
  });
  await report.check("sessions over max_sessions are refused (503), and accepted once others have expired", async () => {
    // Unused sessions make room for others.
    const used = async () => {
      const begun = await start();
      const session = { ...token, "Mcp-Session-Id": begun.headers["mcp-session-id"] };
      equal((await send(front.url, '{"jsonrpc":"2.0","id":2,"method":"tools/list"}', session)).status, 200, "its first request");
      return begun;
    };
    const first = await used();
    equal(`${first.status} ${(await used()).status}`, "200 200", "status");
    const { status, headers } = await start();
    equal(status, 503, "status");
    assert(Number(headers["retry-after"]) > 0, `Retry-After: ${headers["retry-after"]}`);
    await until(10_000, "a session is over", async () => (await start()).status === 200);
    equal((await send(front.url, ping, { ...token, "Mcp-Session-Id": first.headers["mcp-session-id"] })).status, 404, "the first one");
    assert(!front.output.includes(setup.secret), "the token is in the log");
  });
  await front.stop();
}

async function shutdown(context, front) {
  await context.report.check("SIGTERM with open sessions and a pending call: exit code 0, every process gone within 5 s", async () => {
    const clients = await Promise.all([opened(front), opened(front)]);
    const from = clients[0].messages.length;
    clients[0].start("tools/call", `{"name":"${slow}","arguments":{"duration":30,"steps":300},"_meta":{"progressToken":"late"}}`);
    await clients[0].wait("progress", (m) => m.params?.progressToken === "late", { from });
    return gone(context, front, "the front", () => front.child.kill("SIGTERM"));
  });
}
