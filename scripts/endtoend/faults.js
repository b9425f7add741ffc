// Upstreams that die or never work, together with ones that work.

import { listed, marked } from "./processes.js";
import { assert, equal, until, within } from "./report.js";

export async function killedUpstream({ setup, report, main }) {
  const processes = () => marked(setup.mark).filter((p) => p.upstream === "filesystem");
  await report.check("kill -9: the call in flight and the next ones fail at once", async () => {
    const victims = processes();
    equal(victims.length, 1, `processes of the filesystem server (${listed(victims)})`);
    // A stopped process gets the call but cannot answer it.
    process.kill(victims[0].pid, "SIGSTOP");
    const pending = main.call("filesystem__list_allowed_directories");
    await main.request("ping");
    process.kill(victims[0].pid, "SIGKILL");
    const inFlight = await within(2000, "answer to the call in flight", pending);
    const next = await within(2000, "answer to the next call", main.call("filesystem__list_allowed_directories"));
    for (const { value, raw } of [inFlight, next]) {
      assert(value.result?.isError === true, raw);
      assert(value.result.content[0].text.includes("filesystem"), `does not name the server: ${raw}`);
    }
    await until(5000, "the process is gone", () => processes().length === 0);
    return next.value.result.content[0].text;
  });
  await report.check("the other servers still work, and a script sees the failure", async () => {
    assert(!(await main.call("everything__echo", { message: "x" })).value.result.isError, "everything");
    assert(!(await main.call("memory__read_graph")).value.result.isError, "memory");
    const code = 'return filesystem.list_allowed_directories()';
    const { value } = await main.call("eval_starlark", { code });
    assert(value.result.isError === true, "the script did not fail");
    equal(value.result.structuredContent.error.type, "tool", "type");
  });
  await report.check("a killed server that is restarted: the call in flight fails, later ones work", async () => {
    const [victim] = marked(setup.mark).filter((p) => p.upstream === "memory" && p.parent === main.child.pid);
    process.kill(victim.pid, "SIGSTOP");
    const pending = main.call("memory__read_graph");
    await main.request("ping");
    process.kill(victim.pid, "SIGKILL");
    const { value, raw } = await within(2000, "answer to the call in flight", pending);
    assert(value.result?.isError === true && value.result.content[0].text.includes("memory"), raw);
    const started = performance.now();
    await until(10_000, "a call works", async () => !(await main.call("memory__read_graph")).value.result.isError);
    return `${Math.round(performance.now() - started)} ms later`;
  });
}

const startupWait = 4000; // ms

// brokenUpstreams returns the client that is connected to the binary.
export async function brokenUpstreams({ setup, report }) {
  const config = setup.configure("broken", { ...setup.broken(), ...setup.upstreams("broken") }, `${startupWait}ms`);
  const client = setup.serve(config);
  await report.check("initialize does not wait for servers that do not start", async () => {
    await client.initialize();
    assert(client.initializeTime < 2000, `took ${client.initializeTime} ms`);
    return `${client.initializeTime.toFixed(0)} ms`;
  });
  await report.check("tools/list is answered within startup_wait, with the servers that work", async () => {
    const started = performance.now();
    const names = (await client.definitions()).map((d) => d.name);
    const took = performance.now() - started;
    for (const server of ["everything", "filesystem", "memory"]) {
      assert(names.some((n) => n.startsWith(server + "__")), `no tool of ${server}`);
    }
    assert(took < startupWait + 2000, `took ${took} ms`);
    return `${took.toFixed(0)} ms, startup_wait is ${startupWait} ms`;
  });
  await report.check("the servers that started can be called, the others say what is wrong", async () => {
    const { value } = await client.call("everything__echo", { message: "beside broken ones" });
    assert(value.result.content[0].text.includes("beside broken ones"), "echo");
    for (const server of ["missing", "garbage"]) {
      const { value } = await client.call("eval_starlark", { code: `return ${server}.anything()` });
      assert(value.result.isError === true, `${server}: no error`);
      assert(value.result.content[0].text.includes(server), `does not name ${server}: ${value.result.content[0].text}`);
    }
  });
  await report.check("the log names each server that does not start", async () => {
    for (const server of ["missing", "garbage"]) {
      assert(client.stderr.includes(server), `nothing about ${server}: ${client.stderr.slice(0, 1000)}`);
    }
  });
  await report.check("`servers` reports each one", async () => {
    const { stdout, stderr, status } = setup.run("servers", "--config", config);
    const line = (server) => stdout.split("\n").find((l) => l.includes(server)) ?? "";
    for (const server of ["missing", "hanging", "garbage", "everything", "filesystem", "memory"]) {
      assert(line(server), `nothing about ${server}: ${stdout}${stderr}`);
    }
    assert(/\b14\b/.test(line("filesystem")), `number of tools: ${line("filesystem")}`);
    assert(!/\b0\b.*ready|ready.*\b0\b/.test(line("missing")), line("missing"));
    equal(status, 1, "exit code (some do not work)");
    return ["missing", "hanging", "garbage"].map(line).map((l) => l.trim().replace(/\s+/g, " ")).join(" | ");
  });
  return client;
}
