// Items of fidelity: each performs one exchange with a client of server-everything
// and returns its outcome as text, which is equal for equal tokens.

import { notes } from "./calls.js";
import { member, replace, tokens } from "./rawjson.js";
import { assert, until } from "./report.js";

const document = "demo://resource/static/document/features.md";
const trace = '"_meta":{"example.com/trace":{"n":12345678901234567890}}';

// result returns the result of a request, or its error.
async function result(place, method, params) {
  const { raw } = await place.client.request(method, params);
  return outcome(raw);
}

const outcome = (raw) => tokens(member(raw, "result") ?? member(raw, "error"));

const call = (place, tool, args = "{}", rest = trace) =>
  result(place, "tools/call", `{"name":${JSON.stringify(place.name(tool))},"arguments":${args}${rest && `,${rest}`}}`);

// definitions lists items with names, with the server's own names. It leaves out
// the binary's own items.
async function definitions(place, of, method) {
  const prefix = place.name("");
  const named = (await place.client.list(of, method)).map((raw) => ({ raw, name: JSON.parse(raw).name }));
  const theirs = named.filter(({ name }) => name.startsWith(prefix));
  return theirs.map(({ raw, name }) => tokens(replace(raw, "name", JSON.stringify(name.slice(prefix.length))))).sort().join("\n");
}

// resources lists items with URIs, which are always the server's own.
const resources = async (place, of, method) => (await place.client.list(of, method)).map(tokens).sort().join("\n");

// sent returns the params of the only message with text in it that reached the server.
async function sent(place, text) {
  const find = () => place.tapped().findLast(({ raw }) => raw.includes(text));
  return (await until(5000, `${text} at the server`, find)).params;
}

async function asWritten(place) {
  const args = '{"message":"tap \\u00e9","big":9007199254740993,"float":1.0,"nested":{"b":1e400,"a":[]}}';
  await call(place, "echo", args, `${trace},"example.com/unknown":{"x":-0.0}`);
  return tokens(replace(await sent(place, '"tap \\u00e9"'), "name", '""'));
}

async function progress(place, token) {
  const { client } = place;
  const from = client.messages.length;
  const name = JSON.stringify(place.name("trigger-long-running-operation"));
  const params = `{"name":${name},"arguments":{"duration":0.3,"steps":4},"_meta":{"progressToken":${token}}}`;
  const answer = await client.answer(client.start("tools/call", params), { from });
  const seen = notes(client, from, client.messages.indexOf(answer), token);
  assert(seen.length > 0, "no progress");
  return [...seen.map((n) => tokens(n.raw)), outcome(answer.raw)].join("\n");
}

// cancelled returns what the server is told about a cancelled call: only that it is
// the call that it knows. The client is told nothing.
async function cancelled(place) {
  const { client } = place;
  const from = client.messages.length;
  const name = JSON.stringify(place.name("trigger-long-running-operation"));
  const id = client.start("tools/call", `{"name":${name},"arguments":{"duration":1,"steps":10},"_meta":{"progressToken":"stop"}}`);
  await client.wait("progress", (m) => m.params?.progressToken === "stop", { from });
  client.notify("notifications/cancelled", { requestId: JSON.parse(id), reason: "e2e" });
  const told = await until(5000, "the server is told", () =>
    place.tapped().findLast(({ value }) => value.method === "notifications/cancelled"));
  const calls = place.tapped().filter(({ value }) => value.params?.arguments?.steps === 10);
  await call(place, "trigger-long-running-operation", '{"duration":1.2,"steps":1}');
  const answers = client.messages.slice(from).filter(({ value }) => value.id === JSON.parse(id) && !value.method);
  return `of the call: ${told.value.params.requestId === calls.at(-1).value.id}, answers: ${answers.length}`;
}

// asked calls a tool that sends a request to the client. It returns the request and
// the result.
async function asked(place, method, tool, args) {
  const from = place.client.messages.length;
  const answer = await call(place, tool, args);
  const question = place.client.messages.slice(from).find(({ value }) => value.method === method);
  assert(question, `the client was not asked: ${answer}`);
  return `${tokens(member(question.raw, "params"))}\n${answer}`;
}

async function roots(place) {
  const before = await call(place, "get-roots-list");
  const from = place.client.messages.length;
  place.client.notify("notifications/roots/list_changed");
  await place.client.wait("roots/list", (m) => m.method === "roots/list", { from });
  return before;
}

// updated subscribes to a resource and returns the notification. It checks that
// there is none for resources without a subscription.
async function updated(place) {
  const { client } = place;
  const from = client.messages.length;
  const subscribed = await result(place, "resources/subscribe", `{"uri":"${document}",${trace}}`);
  await client.call(place.name("toggle-subscriber-updates"));
  const note = await client.wait("resources/updated", (m) => m.method === "notifications/resources/updated", { from });
  await client.call(place.name("toggle-subscriber-updates"));
  const unsubscribed = await result(place, "resources/unsubscribe", `{"uri":"${document}"}`);
  const after = client.messages.length;
  await client.call(place.name("toggle-subscriber-updates"));
  await client.call(place.name("toggle-subscriber-updates"));
  const more = client.messages.slice(after).filter(({ value }) => value.method === "notifications/resources/updated").length;
  return [subscribed, tokens(member(note.raw, "params")), unsubscribed, `after that: ${more}`].join("\n");
}

// logging returns the log messages of an enabled level, and the number of messages
// of a level that is not enabled.
async function logging(place) {
  const { client } = place;
  const noted = (from) => client.messages.slice(from).filter(({ value }) => value.method === "notifications/message");
  const subscribe = `{"uri":"demo://resource/log"}`;
  const from = client.messages.length;
  const set = await result(place, "logging/setLevel", '{"level":"info"}');
  await result(place, "resources/subscribe", subscribe);
  const about = (m) => m.method === "notifications/message" && `${m.params.data}`.includes("demo://resource/log");
  const { value } = await client.wait("log message", about, { from });
  await result(place, "logging/setLevel", '{"level":"error"}');
  const after = client.messages.length;
  await result(place, "resources/unsubscribe", subscribe);
  await client.call(place.name("echo"), { message: "x" });
  const said = value.params.data.replace(/ from session .*/, "").trim();
  return `${set} ${value.params.level} ${said}, after "error": ${noted(after).length}`;
}

// task runs a call as a task, from its start to its result.
async function task(place) {
  const from = place.client.messages.length;
  const rest = `"task":{"ttl":60000},"_meta":{"progressToken":"task"}`;
  const made = JSON.parse((await call(place, "simulate-research-query", '{"topic":"proxies"}', rest)).replaceAll(" ", ""));
  const id = made.task?.taskId;
  assert(id, `no task: ${JSON.stringify(made)}`);
  const state = async () => JSON.parse(await result(place, "tasks/get", { taskId: id })).status;
  const states = [made.task.status];
  await until(20_000, "the task is completed", async () => {
    const now = await state();
    if (now !== states.at(-1)) states.push(now);
    return now === "completed";
  });
  const listed = JSON.parse(await result(place, "tasks/list", "{}")).tasks.some((t) => t.taskId === id);
  const done = await result(place, "tasks/result", { taskId: id });
  const unknown = JSON.parse(await result(place, "tasks/get", '{"taskId":"no-such-task"}')).code;
  const told = place.client.messages.slice(from).some(({ value }) => value.method === "notifications/tasks/status");
  return [states.join(), `listed: ${listed}`, done.replaceAll(id, "ID"), unknown, told].join("\n");
}

const clock = (text) => text.replace(/\d{1,2}:\d\d:\d\d\s?[AP]M/g, "TIME");

export const items = [
  ["tool definitions", (p) => definitions(p, "tools")],
  ["prompt definitions", (p) => definitions(p, "prompts")],
  ["resources", (p) => resources(p, "resources")],
  ["resource templates", (p) => resources(p, "resourceTemplates", "resources/templates/list")],
  ["text", (p) => call(p, "echo", '{"message":"h\\u00e9llo \\u2028 \\"quoted\\""}')],
  ["image", (p) => call(p, "get-tiny-image")],
  ["structured content", (p) => call(p, "get-structured-content", '{"location":"Chicago"}')],
  ["annotations", (p) => call(p, "get-annotated-message", '{"messageType":"error","includeImage":true}')],
  ["resource links", (p) => call(p, "get-resource-links", '{"count":3}')],
  ["embedded resource", async (p) => clock(await call(p, "get-resource-reference", '{"resourceType":"Text","resourceId":2}'))],
  ["tool error", (p) => call(p, "get-sum", '{"a":"two"}')],
  ["request as written", asWritten],
  ["progress, string token", (p) => progress(p, '"token-1"')],
  ["progress, integer token", (p) => progress(p, "7")],
  ["cancel", cancelled],
  ["resource, text", (p) => result(p, "resources/read", `{"uri":"${document}",${trace}}`)],
  ["resource of a template", async (p) => clock(await result(p, "resources/read", '{"uri":"demo://resource/dynamic/text/3"}'))],
  ["unknown resource", (p) => result(p, "resources/read", '{"uri":"demo://no/such"}')],
  ["prompt", (p) => result(p, "prompts/get", JSON.stringify({ name: p.name("args-prompt"), arguments: { city: "Bern", state: "BE" } }))],
  ["prompt with a resource", async (p) =>
    clock(await result(p, "prompts/get", JSON.stringify({ name: p.name("resource-prompt"), arguments: { resourceType: "Text", resourceId: "1" } })))],
  ["completion, prompt", (p) => result(p, "completion/complete", JSON.stringify({
    ref: { type: "ref/prompt", name: p.name("completable-prompt") },
    argument: { name: "name", value: "A" }, context: { arguments: { department: "Engineering" } },
  }))],
  ["completion, template", (p) => result(p, "completion/complete",
    '{"ref":{"type":"ref/resource","uri":"demo://resource/dynamic/text/{resourceId}"},"argument":{"name":"resourceId","value":"12"}}')],
  ["logging", logging],
  ["subscription", updated],
  ["sampling", (p) => asked(p, "sampling/createMessage", "trigger-sampling-request", '{"prompt":"say","maxTokens":5}')],
  ["elicitation, form", (p) => asked(p, "elicitation/create", "trigger-elicitation-request", "{}")],
  ["elicitation, URL", (p) => asked(p, "elicitation/create", "trigger-url-elicitation", '{"url":"https://example.com/a","elicitationId":"e-1"}')],
  ["URL elicitation error", (p) => call(p, "trigger-url-elicitation", '{"url":"https://example.com/b","elicitationId":"e-2","errorPath":true}')
    .then((text) => text.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "ID"))],
  ["roots", roots],
  ["task", task],
  ["ping", (p) => result(p, "ping", "{}")],
];
