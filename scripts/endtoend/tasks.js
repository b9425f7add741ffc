// Tasks between hosts and servers of both eras: server-everything has those of
// 2025-11-25, and servers/tasks.js those of the extension of 2026-07-28.

import { fileURLToPath } from "node:url";
import { Host } from "./host.js";
import { assert, equal, until } from "./report.js";

const extension = "io.modelcontextprotocol/tasks";
const older = "everything__simulate-research-query"; // takes four seconds, and asks after two
const newer = "tasks__confirm_delete"; // asks at once
const question = { topic: "python", ambiguous: true };
const file = { filename: "a.txt" };

export async function tasks({ setup, report }) {
  const { everything } = setup.upstreams("tasks");
  const config = setup.configure("tasks", {
    everything,
    tasks: { command: process.execPath, args: [fileURLToPath(new URL("servers/tasks.js", import.meta.url))], protocol: "2026-07-28" },
  });
  // The older server offers the tool only to clients that can be asked.
  const asked = [];
  const handlers = {
    "elicitation/create": ({ message }) => {
      asked.push(message);
      return { action: "accept", content: { interpretation: "snake", confirm: true } };
    },
  };
  for (const [era, name, capabilities, checks] of [
    ["modern", "a modern host with tasks", { elicitation: {}, extensions: { [extension]: {} } }, withTasks],
    ["modern", "a modern host without tasks", { elicitation: {} }, withoutTasks],
    ["legacy", "a legacy host", { elicitation: {} }, handshake],
  ]) {
    asked.length = 0;
    const host = new Host(era, setup.binary, ["serve", "--config", config], { env: setup.env, cwd: setup.dir, capabilities, handlers });
    host.client.viaBinary = true;
    setup.clients.push(host.client);
    try {
      await host.open();
      await host.result("tools/list");
      for (const [what, body] of Object.entries(checks)) await report.check(`${name}: ${what}`, () => body(host, asked));
    } finally {
      await host.close();
    }
  }
}

const withTasks = {
  "a tool of an older server becomes a task, asks, and ends": (host, asked) => followed(host, asked, older, question, "snake"),
  "a tool of a newer server becomes a task, asks, and ends": (host, asked) => followed(host, asked, newer, file, "deleted"),
  "both can be cancelled": async (host) => {
    for (const [tool, args] of [[older, question], ["tasks__slow_compute", { seconds: 60 }]]) {
      const { taskId } = await host.result("tools/call", { name: tool, arguments: args });
      await host.result("tasks/cancel", { taskId });
      equal((await host.result("tasks/get", { taskId })).status, "cancelled", tool);
      await host.result("tasks/cancel", { taskId }); // again
    }
  },
};

// followed makes a task, answers what it asks, and compares the notifications about it
// with what tasks/get says.
async function followed(host, asked, tool, args, result) {
  const from = host.client.messages.length;
  const made = await host.result("tools/call", { name: tool, arguments: args });
  equal(made.resultType, "task", "type");
  const { taskId } = made;
  const subscription = await host.listen({ taskIds: [taskId] });
  const statuses = [];
  let task;
  await until(20_000, "the end of the task", async () => {
    task = await host.result("tasks/get", { taskId });
    if (statuses.at(-1) !== task.status) statuses.push(task.status);
    if (task.status === "input_required") {
      const inputResponses = Object.fromEntries(Object.entries(task.inputRequests).map(([key, { method, params }]) => [key, host.handlers[method](params)]));
      await host.result("tasks/update", { taskId, inputResponses });
    }
    return !["working", "input_required"].includes(task.status);
  });
  assert(JSON.stringify(task.result).includes(result), JSON.stringify(task));
  assert(statuses.includes("input_required") && statuses.at(-1) === "completed", statuses.join());
  const told = () => host.client.messages.slice(from).map(({ value }) => value).filter(({ method }) => method === "notifications/tasks").map(({ params }) => params);
  await until(10_000, "a notification of the end", () => told().some(({ status }) => status === "completed"));
  for (const { taskId: id, _meta } of told()) equal(`${id} ${_meta["io.modelcontextprotocol/subscriptionId"]}`, `${taskId} ${subscription}`, "notification");
  return `${statuses.join(", ")}; ${told().length} notifications; asked: ${asked.splice(0).length}`;
}

const withoutTasks = {
  "a tool of an older server that is always a task is waited for": (host, asked) => waited(host, asked, older, question, "snake"),
  "a newer server answers as it does to a client without tasks": async (host) => {
    const { value } = await host.request("tools/call", { name: "tasks__failing_job", arguments: {} });
    equal(value.error?.code, -32021, "code");
    equal(JSON.stringify(value.error.data.requiredCapabilities), JSON.stringify({ extensions: { [extension]: {} } }), "capabilities");
  },
};

const handshake = {
  "a tool of a newer server that is always a task is waited for": (host, asked) => waited(host, asked, newer, file, "deleted"),
  "it cannot make a task of a newer server's tool": async (host) => {
    const { value } = await host.request("tools/call", { name: newer, arguments: file, task: {} });
    equal(value.error?.code, -32601, "code");
  },
  "a tool of an older server becomes a task, asks, and ends": async (host, asked) => {
    const { task } = await host.result("tools/call", { name: older, arguments: question, task: {} });
    const { content } = await host.result("tasks/result", { taskId: task.taskId });
    assert(content[0].text.includes("snake"), content[0].text);
    equal((await host.result("tasks/get", { taskId: task.taskId })).status, "completed", "status");
    return `asked: ${asked.splice(0).length}`;
  },
};

// waited calls a tool and gets its result, after a question.
async function waited(host, asked, tool, args, result) {
  const got = await host.result("tools/call", { name: tool, arguments: args });
  assert(got.content?.[0].text.includes(result), JSON.stringify(got));
  equal(asked.splice(0).length, 1, "questions");
}
