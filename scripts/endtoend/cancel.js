// Cancelled calls: they are never answered, they stop at the server or in the
// sandbox, and all else continues. To show that no answer comes, the checks wait
// for longer than the call would have taken.

import { notes } from "./calls.js";
import { cpuTime } from "./processes.js";
import { assert, equal, pause, until } from "./report.js";

const seconds = 2; // the time of a call that is not cancelled
const longName = "everything__trigger-long-running-operation";

export async function cancel(context) {
  const { report, main } = context;
  const cancelled = []; // {id, token, from}: must get no message until the end
  await report.check("a cancelled call: the server is told, with the id that it knows", () => proxied(context, cancelled));
  await report.check("a cancelled composite call: the tool call it waits for is cancelled too", () => waiting(context, cancelled));
  await report.check("a cancelled composite call that computes without end is stopped", () => computing(context, cancelled));
  await report.check("none of them is ever answered, and no progress follows", async () => {
    await pause(seconds * 1000 + 500);
    const { value } = await main.call("everything__echo", { message: "still here" });
    assert(value.result.content[0].text.includes("still here"), "echo");
    for (const { id, token, from } of cancelled) {
      const answers = main.messages.filter((m) => m.value.id === JSON.parse(id) && !m.value.method);
      equal(answers.map((m) => m.raw).join(), "", `answer to the cancelled ${id}`);
      equal(notes(main, from, main.messages.length, token).length, 0, `progress of the cancelled ${id}`);
    }
    equal(cancelled.length, 3, "cancelled calls");
  });
  await report.check("cancellations of unknown or completed requests, or without sense, are ignored", async () => {
    for (const params of [{ requestId: "no-such" }, { requestId: 1 }, { requestId: null }, {}]) main.notify("notifications/cancelled", params);
    equal(JSON.stringify((await main.request("ping")).value.result), "{}", "ping");
  });
}

function start(main, id, name, args) {
  const token = JSON.stringify(`progress of ${id}`);
  const from = main.messages.length;
  main.start("tools/call", `{"name":"${name}","arguments":${JSON.stringify(args)},"_meta":{"progressToken":${token}}}`, JSON.stringify(id));
  return { id: JSON.stringify(id), token, from };
}

const firstProgress = (main, call) =>
  main.wait(`progress of ${call.id}`, (m) => m.params?.progressToken === JSON.parse(call.token), { from: call.from });

// stop cancels a call and waits for another call to be answered. By then the
// cancellation has been read, so that later messages for the call are wrong.
async function stop(main, call, list) {
  main.notify("notifications/cancelled", { requestId: JSON.parse(call.id), reason: "changed my mind" });
  await main.call("everything__echo", { message: "after " + call.id });
  list.push({ ...call, from: main.messages.length });
}

async function toldUpstream(tapped, already) {
  await until(5000, "the server is told", () => toldSoFar(tapped) > already); // a script's calls are cancelled in the background
  const lines = tapped();
  const calls = lines.filter((l) => l.value.params?.name === "trigger-long-running-operation");
  const told = lines.filter((l) => l.value.method === "notifications/cancelled").slice(already);
  equal(told.length, 1, "notifications/cancelled at the server");
  equal(told[0].value.params.requestId, calls.at(-1).value.id, "requestId upstream");
}

const toldSoFar = (tapped) => tapped().filter((l) => l.value.method === "notifications/cancelled").length;

async function proxied({ main, tapped }, list) {
  const before = toldSoFar(tapped);
  const call = start(main, "cancel-1", longName, { duration: seconds, steps: 20 });
  await firstProgress(main, call);
  await stop(main, call, list);
  await toldUpstream(tapped, before);
}

async function waiting({ main, tapped }, list) {
  const before = toldSoFar(tapped);
  const code = `
everything.trigger_long_running_operation({"duration": ${seconds}, "steps": 20})
return "too late"`;
  const call = start(main, "cancel-2", "eval_starlark", { code });
  await firstProgress(main, call);
  await stop(main, call, list);
  await toldUpstream(tapped, before);
}

async function computing({ main }, list) {
  const pid = main.child.pid;
  // load returns the share of one processor that the binary uses in the given time.
  const load = async (ms) => {
    const before = cpuTime(pid);
    await pause(ms);
    return ((cpuTime(pid) - before) * 10) / ms;
  };
  const call = start(main, "cancel-3", "eval_starlark", { code: 'everything.echo(message = "go")\nwhile True:\n    pass\n' });
  await firstProgress(main, call);
  await until(10_000, "the script computes", async () => (await load(200)) > 0.3);
  await stop(main, call, list);
  const started = performance.now();
  await until(10_000, "the script has stopped", async () => (await load(200)) < 0.15);
  return `idle ${Math.round(performance.now() - started)} ms later`;
}
