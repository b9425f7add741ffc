// Hosts that connect without a login: the MCP Inspector's command line in both eras,
// and a coding host's check of its servers.

import { execFile, execFileSync } from "node:child_process";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { eraServers } from "./eras.js";
import { revisions } from "./host.js";
import { assert, equal } from "./report.js";
import { Tap } from "./tap.js";

const recorder = fileURLToPath(new URL("recorder.js", import.meta.url));
const install = fileURLToPath(new URL("install", import.meta.url));

export async function hosts({ setup, report }) {
  let modules;
  await report.check("hosts are installed", async () => {
    modules = execFileSync(install, ["hosts"], { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }).trim();
  });
  if (!modules) return;
  const servers = eraServers(setup);
  const config = setup.configure("hosts", { ...setup.upstreams("hosts"), gosdk: servers.gosdk("2026-07-28") });
  const front = await setup.front(config);
  const tap = await Tap.of(new URL(front.url).port);
  const place = { config, url: `http://127.0.0.1:${tap.port}/mcp`, tap, modules };
  await inspector({ setup, report }, place);
  await claude({ setup, report }, place);
  tap.close();
  await front.stop();
}

// run runs a host, and returns what it prints.
function run(setup, command, args, env = {}) {
  return new Promise((resolve, reject) => {
    execFile(command, args, { env: { ...setup.env, ...env }, cwd: setup.dir, timeout: 50_000, maxBuffer: 1 << 26 }, (err, stdout, stderr) => {
      if (err) reject(new Error(`${err.message.slice(0, 200)}: ${stdout.slice(-400)}${stderr.slice(-400)}`));
      else resolve(stdout);
    });
  });
}

// wants are what the Inspector is asked for, and what must be in its answer.
const wants = [
  { over: "stdio", args: ["--method", "tools/call", "--tool-name", "gosdk__echo", "--tool-arg", "text=hi"], says: "said: hi" },
  { over: "HTTP", args: ["--method", "tools/list"], says: "everything__echo" },
  { over: "HTTP", args: ["--method", "tools/call", "--tool-name", "everything__get-sum", "--tool-arg", "a=20", "b=22"], says: "is 42" },
  { over: "HTTP", args: ["--method", "resources/read", "--uri", "e2e://gosdk/note"], says: "a note" },
  { over: "HTTP", args: ["--method", "prompts/get", "--prompt-name", "gosdk__greet", "--prompt-args", "name=Ann"], says: "Greet Ann" },
];

async function inspector({ setup, report }, { config, url, tap, modules }) {
  const node = join(setup.modules, `node-linux-${process.arch}`, "bin", "node");
  const cli = join(modules, "@modelcontextprotocol/inspector/clients/launcher/build/index.js");
  const record = join(setup.dir, "inspector.jsonl");
  const target = { stdio: [process.execPath, recorder, record, setup.binary], HTTP: ["--server-url", url] };
  const settings = Object.entries({ ...setup.env, MCP_METATOOL_CONFIG: config }).flatMap(([name, value]) => ["-e", `${name}=${value}`]);
  for (const era of ["legacy", "modern"]) {
    await Promise.all(wants.map(({ over, args, says }) =>
      report.check(`Inspector, ${era}, over ${over}: ${args[1]}`, async () => {
        const posted = tap.posted.length;
        const output = await run(setup, node, [cli, "--cli", ...target[over], ...(over === "stdio" ? settings : []), "--protocol-era", era, "--format", "json", ...args]);
        const { result } = JSON.parse(output);
        assert(JSON.stringify(result).includes(says), `answer: ${output.slice(0, 600)}`);
        const sent = over === "HTTP" ? tap.posted.slice(posted).map(({ value }) => value) : lines(record);
        equal(spoken(sent, args[1]), revisions[era], "revision of the request");
      })));
  }
}

const lines = (file) => readFileSync(file, "utf8").split("\n").slice(0, -1).map((line) => JSON.parse(line));

// spoken returns the revision in which the last request of a method was sent.
function spoken(sent, method) {
  const { params } = sent.findLast((message) => message.method === method);
  return params?._meta?.["io.modelcontextprotocol/protocolVersion"] ?? sent.findLast((message) => message.method === "initialize").params.protocolVersion;
}

async function claude({ setup, report }, { config, url, tap, modules }) {
  const command = join(modules, `@anthropic-ai/claude-code-linux-${process.arch}`, "claude");
  const env = { CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1", DISABLE_AUTOUPDATER: "1" };
  await report.check("Claude Code finds the binary healthy over stdio and over HTTP, where it speaks 2026-07-28", async () => {
    assert(existsSync(command), `not installed: ${readdirSync(join(modules, "@anthropic-ai"))}`);
    const local = { type: "stdio", command: setup.binary, args: ["serve", "--config", config] };
    writeFileSync(join(setup.env.HOME, ".claude.json"), JSON.stringify({ mcpServers: { local, remote: { type: "http", url } } }));
    const posted = tap.posted.length;
    const output = await run(setup, command, ["mcp", "list"], env);
    for (const name of ["local", "remote"]) assert(new RegExp(`^${name}: .* Connected$`, "m").test(output), output);
    equal(spoken(tap.posted.slice(posted).map(({ value }) => value), "tools/list"), revisions.modern, "revision over HTTP");
  });
}
