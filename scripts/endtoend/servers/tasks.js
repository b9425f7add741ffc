// A server with the tools that the conformance suite's scenarios of the extension
// io.modelcontextprotocol/tasks ask for. No SDK has the extension for servers yet, so it
// speaks 2026-07-28 by itself, over stdio or over HTTP:
//
//	node tasks.js [PORT]

import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { randomUUID } from "node:crypto";

const extension = "io.modelcontextprotocol/tasks";
const meta = (key) => `io.modelcontextprotocol/${key}`;
const cached = { ttlMs: 0, cacheScope: "private" };
const text = (s, more = {}) => ({ content: [{ type: "text", text: s }], ...more });
const elicit = (message) => ({ method: "elicitation/create", params: { mode: "form", message, requestedSchema: { type: "object", properties: { name: { type: "string" }, confirm: { type: "boolean" } } } } });

class Refusal extends Error {
  constructor(code, message, data) {
    super(message);
    Object.assign(this, { code, data });
  }
}

const undeclared = () => new Refusal(-32021, "the client does not declare tasks", { requiredCapabilities: { extensions: { [extension]: {} } } });

// Task is one task. A tool settles it, or asks first.
class Task {
  static all = new Map();
  status = "working";
  waiting = {}; // questions without an answer, by key
  answers = {};

  constructor() {
    this.id = randomUUID();
    this.created = this.updated = new Date().toISOString();
    this.settled = new Promise((resolve) => (this.resolve = resolve));
    Task.all.set(this.id, this);
  }

  base() {
    return { taskId: this.id, status: this.status, createdAt: this.created, lastUpdatedAt: this.updated, ttlMs: 600_000, pollIntervalMs: 100 };
  }

  detailed() {
    const asks = this.status === "input_required" ? { inputRequests: this.waiting } : {};
    return { ...this.base(), ...asks, ...this.outcome };
  }

  // to changes the status of a task that has not ended.
  to(status, outcome) {
    if (["completed", "failed", "cancelled"].includes(this.status)) return;
    Object.assign(this, { status, outcome, updated: new Date().toISOString() });
    for (const listener of listeners) listener(this);
    if (status !== "working" && status !== "input_required") this.resolve();
  }

  // ask waits for the answers to questions, by key.
  ask(questions) {
    this.waiting = questions;
    this.to("input_required");
    return new Promise((resolve) => (this.answered = resolve));
  }

  update(answers) {
    for (const [key, answer] of Object.entries(answers)) {
      if (!(key in this.waiting)) continue;
      this.answers[key] = answer;
      delete this.waiting[key];
    }
    if (this.status !== "input_required" || Object.keys(this.waiting).length > 0) return;
    this.to("working");
    this.answered(this.answers);
  }
}

const listeners = new Set();
const after = (ms) => new Promise((resolve) => setTimeout(resolve, ms).unref());

// tools by name. now answers without a task; later settles a task.
const tools = {
  greet: { now: ({ name }) => text(`Hello, ${name}!`) },
  slow_compute: {
    now: ({ seconds = 0 }) => after(1000 * seconds).then(() => text("computed")),
    later: ({ seconds = 0 }, task) => after(1000 * seconds).then(() => task.to("completed", { result: text("computed") })),
  },
  failing_job: { later: (_, task) => after(50).then(() => task.to("completed", { result: text("it failed", { isError: true }) })) },
  protocol_error_job: { later: (_, task) => after(50).then(() => task.to("failed", { error: { code: -32603, message: "it broke" } })) },
  confirm_delete: { later: ({ filename }, task) => task.ask({ confirm: elicit(`Delete ${filename}?`) }).then(() => task.to("completed", { result: text("deleted") })) },
  multi_input: { later: (_, task) => task.ask({ one: elicit("One?"), two: elicit("Two?") }).then(() => task.to("completed", { result: text("both") })) },
  test_tool_with_task: {
    asks: { user_name: elicit("Your name?") },
    later: (_, task, { user_name }) => after(50).then(() => task.to("completed", { result: text(`Hello, ${user_name.content.name}!`) })),
  },
};

const handlers = {
  "server/discover": () => ({ supportedVersions: ["2026-07-28"], capabilities: { tools: {}, extensions: { [extension]: {} } }, ...cached }),
  "tools/list": () => ({ tools: Object.keys(tools).map((name) => ({ name, description: name, inputSchema: { type: "object" } })), ...cached }),
  async "tools/call"({ name, arguments: args = {}, inputResponses }, declares) {
    const tool = tools[name];
    if (!tool) throw new Refusal(-32602, `there is no tool ${name}`);
    if (!tool.later || (tool.now && !declares)) return tool.now(args);
    if (!declares) throw undeclared();
    if (tool.asks && !inputResponses) return { resultType: "input_required", inputRequests: tool.asks, requestState: "asked" };
    const task = new Task();
    tool.later(args, task, inputResponses);
    return { resultType: "task", ...task.base(), status: "working" };
  },
  "tasks/get": (params, declares) => taskOf(params, declares).detailed(),
  "tasks/update": (params, declares) => void taskOf(params, declares).update(params.inputResponses ?? {}),
  "tasks/cancel": (params, declares) => void taskOf(params, declares).to("cancelled"),
};

function taskOf({ taskId }, declares) {
  if (!declares) throw undeclared();
  const task = Task.all.get(taskId);
  if (!task) throw new Refusal(-32602, `there is no task ${taskId}`);
  return task;
}

const declares = (params) => extension in (params?._meta?.[meta("clientCapabilities")]?.extensions ?? {});

// answer returns the response to a request.
async function answer({ id, method, params }) {
  try {
    if (!params?._meta?.[meta("protocolVersion")]) throw new Refusal(-32602, "there is no envelope");
    if (!Object.hasOwn(handlers, method)) throw new Refusal(-32601, `there is no method ${method}`);
    const result = await handlers[method](params, declares(params));
    return { jsonrpc: "2.0", id, result: { resultType: "complete", ...result, _meta: { [meta("serverInfo")]: { name: "tasks", version: "1" } } } };
  } catch (err) {
    return { jsonrpc: "2.0", id, error: { code: err.code ?? -32603, message: err.message, ...(err.data ? { data: err.data } : {}) } };
  }
}

// listen sends the acknowledgement of a subscription, and then its notifications. It
// returns what ends it.
function listen({ id, params }, send) {
  const wanted = params.notifications?.taskIds ?? [];
  const notify = (method, more) => send({ jsonrpc: "2.0", method, params: { ...more, _meta: { [meta("subscriptionId")]: id } } });
  notify("notifications/subscriptions/acknowledged", { notifications: wanted.length > 0 ? { taskIds: wanted } : {} });
  const told = (task) => wanted.includes(task.id) && notify("notifications/tasks", task.detailed());
  listeners.add(told);
  return () => listeners.delete(told);
}

function serveStdio() {
  const send = (message) => process.stdout.write(JSON.stringify(message) + "\n");
  const ends = new Map();
  createInterface({ input: process.stdin }).on("line", async (line) => {
    const message = JSON.parse(line);
    if (message.method === "notifications/cancelled") ends.get(message.params.requestId)?.();
    else if (message.method === "subscriptions/listen") ends.set(message.id, listen(message, send));
    else if ("id" in message) send(await answer(message));
  }).on("close", () => process.exit());
}

// statuses of HTTP by the codes of errors; others are 200.
const statuses = { [-32601]: 404, [-32020]: 400, [-32021]: 400 };

// mismatch describes a header that differs from the body.
function mismatch(headers, { method, params }) {
  if (headers["mcp-method"] !== method) return `Mcp-Method is ${headers["mcp-method"]}, not ${method}`;
  const name = { "tools/call": params?.name, "tasks/get": params?.taskId, "tasks/update": params?.taskId, "tasks/cancel": params?.taskId }[method];
  if (name !== undefined && headers["mcp-name"] !== name) return `Mcp-Name is ${headers["mcp-name"]}, not ${name}`;
}

function serveHTTP(port) {
  createServer(async (req, res) => {
    let body = "";
    for await (const chunk of req.setEncoding("utf8")) body += chunk;
    if (req.method !== "POST") return res.writeHead(405, { Allow: "POST" }).end();
    const message = JSON.parse(body);
    if (!("id" in message)) return res.writeHead(202).end();
    if (message.method === "subscriptions/listen") {
      res.writeHead(200, { "Content-Type": "text/event-stream" });
      return res.on("close", listen(message, (m) => res.write(`data: ${JSON.stringify(m)}\n\n`)));
    }
    const differs = mismatch(req.headers, message);
    const response = differs ? { jsonrpc: "2.0", id: message.id, error: { code: -32020, message: differs } } : await answer(message);
    res.writeHead(statuses[response.error?.code] ?? 200, { "Content-Type": "application/json" }).end(JSON.stringify(response));
  }).listen(Number(port), "127.0.0.1");
}

if (process.argv[2]) serveHTTP(process.argv[2]);
else serveStdio();
