// The official TypeScript client, and the commands for users.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { inventory } from "./composite.js";
import { builtins } from "./lists.js";
import { assert, equal, pause, until, within } from "./report.js";
import { sdkCapabilities, sdkSurfaces } from "./sdksurfaces.js";

const sdk = (modules, path) => import(new URL(`@modelcontextprotocol/sdk/dist/esm/${path}`, modules.href + "/"));

// sdkClient tests the binary over "stdio" or "HTTP".
export async function sdkClient({ setup, report }, modules, over) {
  const [{ Client }, { StdioClientTransport }, { StreamableHTTPClientTransport }, types] = await Promise.all(
    ["client/index.js", "client/stdio.js", "client/streamableHttp.js", "types.js"].map((path) => sdk(modules, path)),
  );
  const config = setup.configure(`sdk-${over}`, setup.upstreams(`sdk-${over}`));
  let log = "";
  let front;
  const transports = {
    stdio() {
      const stdio = new StdioClientTransport({
        command: setup.binary, args: ["--config", config], env: setup.env, cwd: setup.dir, stderr: "pipe",
      });
      stdio.stderr.on("data", (chunk) => (log += chunk));
      return stdio;
    },
    async HTTP() {
      front = await setup.front(config);
      return new StreamableHTTPClientTransport(new URL(front.url));
    },
  };
  const client = new Client({ name: "e2e-sdk", version: "1" }, { capabilities: sdkCapabilities });
  const problems = [];
  client.onerror = (err) => problems.push(err.message);
  let changes = 0;
  client.setNotificationHandler(types.ToolListChangedNotificationSchema, () => void changes++);
  const call = (name, args = {}, options) => client.callTool({ name, arguments: args }, undefined, options);

  const connected = await report.check(over === "stdio" ? "connects (serve is the default verb)" : "connects over HTTP", async () => {
    const transport = await transports[over]();
    await client.connect(transport);
    if (over === "HTTP") assert(transport.sessionId, "there is no session");
    return JSON.stringify(client.getServerVersion());
  });
  if (!connected) throw new Error(`the SDK client is not connected: ${log || front?.output}`);
  await report.check("lists the tools of all servers", async () => {
    const { tools } = await client.listTools();
    const names = tools.map((t) => t.name);
    for (const name of [...builtins, "everything__echo", "filesystem__read_text_file", "memory__read_graph"]) {
      assert(names.includes(name), `${name} is missing`);
    }
    return `${tools.length} tools`;
  });
  await report.check("calls tools, checks structured content by the server's output schema", async () => {
    equal((await call("everything__get-sum", { a: 20, b: 22 })).content[0].text, "The sum of 20 and 22 is 42.", "sum");
    equal((await call("everything__get-structured-content", { location: "New York" })).structuredContent.temperature, 33, "weather");
    assert((await call("everything__get-tiny-image")).content.some((c) => c.type === "image"), "no image");
  });
  await report.check("gets progress", async () => {
    const seen = [];
    await call("everything__trigger-long-running-operation", { duration: 0.6, steps: 4 }, { onprogress: (p) => seen.push(p.progress) });
    // Its onprogress misses progress that arrives together with the result.
    assert(seen.length >= 3 && seen.every((p, i) => p === i + 1), `progress: ${seen}`);
    return seen.join();
  });
  await report.check("saves, sees, calls and deletes a tool", async () => {
    assert(!(await call("save_tool", inventory)).isError, "save_tool");
    const { tools } = await client.listTools();
    assert(tools.some((t) => t.name === inventory.name), "not listed");
    const { structuredContent } = await call(inventory.name, { dir: setup.files });
    equal(structuredContent.toolCalls.length, 2, "toolCalls");
    assert(!(await call("delete_saved_tool", { name: inventory.name })).isError, "delete_saved_tool");
    await until(5000, "two list_changed", () => changes >= 2); // over HTTP they come on another stream
  });
  await report.check("cancels a call and continues", async () => {
    const abort = new AbortController();
    const slow = call("everything__trigger-long-running-operation", { duration: 1, steps: 10 }, { signal: abort.signal, onprogress: () => abort.abort("enough") });
    const outcome = await slow.then(() => "was answered", (err) => `${err.message ?? err}`);
    assert(/enough/.test(outcome), outcome);
    await pause(1200);
    assert(!(await call("everything__echo", { message: "on" })).isError, "echo");
  });
  await sdkSurfaces(report, client, types);
  await report.check("closes without unexpected errors", async () => {
    if (over === "HTTP") await client.transport.terminateSession();
    const before = problems.length;
    await within(10_000, "close", client.close());
    if (front) equal((await front.stop()).code, 0, "exit code");
    setup.outputs.push(log);
    // Progress that comes with the result, or after the client has cancelled, is
    // what it calls unknown. Its close aborts what it does at that moment, reading
    // its listening stream or opening it again, and reports that as an error.
    const aborted = /^(SSE stream disconnected: AbortError.*|(Failed to reconnect SSE stream: )?This operation was aborted)$/;
    const expected = (p, i) => /progress notification for an unknown token/.test(p) || (i >= before && aborted.test(p));
    equal(problems.filter((p, i) => !expected(p, i)).join("; "), "", "problems");
  });
}

export async function commands({ setup, report }) {
  const config = setup.configure("cli", setup.upstreams("cli"));
  const tools = join(setup.dir, "cli", "tools");
  mkdirSync(tools, { recursive: true });
  const now = new Date().toISOString();
  const saved = { version: "1.0", ...inventory, metadata: { created: now, modified: now, executionCount: 0 } };
  writeFileSync(join(tools, `${inventory.name}.json`), JSON.stringify(saved, null, 2));

  await report.check("`check` understands the configuration and masks secrets", async () => {
    const { status, stdout, stderr } = setup.run("check", "--config", config);
    equal(status, 0, `exit code (${stderr})`);
    for (const server of ["everything", "filesystem", "memory"]) assert(stdout.includes(server), stdout);
  });
  await report.check("`check` names file, key and variable of an unset ${VAR}", async () => {
    const path = setup.configure("unset", { x: { command: "true", args: ["${E2E_NOT_SET}"] } });
    const { status, stderr } = setup.run("check", "--config", path);
    equal(status, 2, "exit code");
    assert(/unset\.toml/.test(stderr) && /args/.test(stderr) && /E2E_NOT_SET/.test(stderr), stderr);
  });
  await report.check("a saved tool that is called right after the start waits for the servers it needs", async () => {
    const client = setup.serve(config);
    try {
      await client.initialize();
      const { value, raw } = await client.call(inventory.name, { dir: setup.files });
      assert(!value.result?.isError && value.result?.structuredContent?.toolCalls.length === 2, raw);
    } finally {
      await client.close();
    }
  });
  await report.check("`run` prints the result, exit code 0", async () => {
    const { status, stdout, stderr } = setup.run("run", inventory.name, "--params", JSON.stringify({ dir: setup.files }), "--config", config);
    equal(status, 0, `exit code (${stderr.slice(-600)})`);
    assert(JSON.parse(stdout).files.includes("a.txt"), stdout);
  });
  await report.check("`run` of a failing tool: exit code 1, nothing on stdout", async () => {
    const { status, stdout, stderr } = setup.run("run", inventory.name, "--params", '{"dir":"/no/such"}', "--config", config);
    equal(status, 1, "exit code");
    equal(stdout, "", "stdout");
    assert(stderr.includes("filesystem"), stderr);
  });
  await report.check("`tools list`, `tools show` and `tools delete`", async () => {
    const list = setup.run("tools", "list", "--config", config);
    assert(list.status === 0 && list.stdout.includes(inventory.name), list.stdout + list.stderr);
    const show = setup.run("tools", "show", inventory.name, "--config", config);
    assert(show.status === 0 && show.stdout.includes("create_entities"), show.stdout + show.stderr);
    // Runs are counted after the call has returned.
    equal(JSON.parse(readFileSync(join(tools, `${inventory.name}.json`), "utf8")).metadata.executionCount, 3, "executionCount");
    const gone = setup.run("tools", "delete", inventory.name, "--config", config);
    equal(gone.status, 0, `exit code (${gone.stderr})`);
    assert(!setup.run("tools", "list", "--config", config).stdout.includes(inventory.name), "still listed");
  });
}
