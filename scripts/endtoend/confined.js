// Confined servers: the presets with servers from npm, of Go SDKs and in Python, what each
// still does and what it is refused, and `sandbox learn` and `sandbox try` with them.

import { spawnSync } from "node:child_process";
import { createServer } from "node:net";
import { mkdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { assert, equal } from "./report.js";

const text = JSON.stringify;
const plain = fileURLToPath(new URL("servers/plain.py", import.meta.url));

export async function confined(context) {
  const { setup, report } = context;
  const there = begin(setup);
  const lacks = missing(setup, there);
  if (lacks) {
    console.log(`  skipped: this machine cannot confine servers: ${lacks}`);
    return;
  }
  const listener = createServer().listen(0, "127.0.0.1");
  await new Promise((done) => listener.on("listening", done));
  there.port = listener.address().port;
  try {
    await report.check("servers of the presets node, python and go do their work, and nothing else", () => presets(setup, there));
    await report.check("a preset can be enough: `sandbox try` with real servers", () => tried(setup, there));
    await report.check("`sandbox learn` proposes a table that is enough for the same checks", () => learned(setup, there));
  } finally {
    listener.close();
  }
}

// begin makes the folders that servers may use, and one that they may not.
function begin(setup) {
  const dir = join(setup.dir, "confined");
  for (const name of ["open", "closed", "memory"]) mkdirSync(join(dir, name), { recursive: true });
  for (const name of ["open", "closed"]) writeFileSync(join(dir, name, "note.txt"), `${name}\n`);
  return { dir, modules: realpathSync(setup.modules), cache: join(dir, "npm") };
}

// fillCache lets npm put a package into a cache of its own, as docs/confined.md says.
function fillCache({ modules, cache }) {
  const name = "@modelcontextprotocol/server-everything";
  const { version } = JSON.parse(readFileSync(join(modules, name, "package.json"), "utf8"));
  const npm = spawnSync("npm", ["exec", "--yes", `--package=${name}@${version}`, "--", "true"], {
    env: { ...process.env, npm_config_cache: cache, npm_config_ignore_scripts: "true" }, encoding: "utf8", timeout: 120_000,
  });
  equal(npm.status, 0, `exit code of npm exec (${npm.stderr})`);
  return `${name}@${version}`;
}

// configure writes a configuration with servers, each [name, command, args, sandbox]: the
// sandbox as TOML, "" for none.
function configure({ dir }, name, servers, env = {}) {
  const lines = ['startup_wait = "25s"', "[store]", `dir = ${text(join(dir, `${name}-store`))}`];
  for (const [server, command, args, sandbox] of servers) {
    lines.push(`[upstream.${server}]`, `command = ${text(command)}`, `args = ${text(args)}`, 'restart = "never"');
    if (env[server]) lines.push(`env = { ${Object.entries(env[server]).map(([k, v]) => `${k} = ${text(v)}`)} }`);
    if (sandbox) lines.push(`sandbox = ${sandbox}`);
  }
  const path = join(dir, `${name}.toml`);
  writeFileSync(path, `${lines.join("\n")}\n`);
  return path;
}

// missing returns what the machine cannot enforce, "" if it can enforce everything.
function missing(setup, there) {
  const run = setup.run("check", "--config", configure(there, "empty", [["a", "true", [], '{ preset = "go", network = [443] }']]));
  equal(run.status, 0, `exit code (${run.stderr})`);
  return run.stderr.split("\n").filter((line) => line.includes("sandbox: ")).join("; ");
}

// servers returns the servers, with the least that each needs.
function servers(setup, { dir, modules, cache, cached }) {
  const bin = join(dirname(modules), "bin");
  const node = (name, more = "") => `{ preset = ["node", "offline"], read = [${text(modules)}]${more}, memory = "1GB", open_files = 200 }`;
  const [open, closed] = [join(dir, "open"), join(dir, "closed")];
  return [
    ["filesystem", "node", [setup.server("filesystem"), open, closed], node("filesystem", `, write = [${text(open)}]`)],
    ["reader", "node", [setup.server("filesystem"), open], `{ preset = ["node", "read-only"], read = [${text(modules)}, ${text(open)}] }`],
    ["everything", "node", [setup.server("everything")], node("everything")],
    ["memory", "node", [setup.server("memory")], node("memory", `, write = [${text(join(dir, "memory"))}]`)],
    ["forgetful", "node", [setup.server("memory")], node("forgetful")],
    ["npx", "npx", ["--prefix", dirname(modules), "mcp-server-everything"], `{ preset = "node", read = [${text(dirname(modules))}], exec = [${text(modules)}] }`],
    ["cached", "npx", ["--offline", "-y", cached], `{ preset = ["node", "offline"], write = [${text(cache)}], exec = [${text(cache)}] }`],
    ["python", "python3", [plain], `{ preset = "python", read = [${text(plain)}, ${text(open)}], network = [@PORT@], memory = "300MB" }`],
    ["offline", "python3", [plain], `{ preset = ["python", "offline", "read-only"], read = [${text(plain)}] }`],
    ["gosdk", join(bin, "gosdk"), [], '{ preset = ["go", "offline", "read-only"], memory = "256MB" }'],
    ["mcpgo", join(bin, "mcpgo"), [], '{ preset = "go", deny_syscalls = ["memfd_create"] }'],
    ["conformance", join(bin, "everything-server"), [], "{}"],
  ];
}

const environment = ({ dir, cache }) => ({
  cached: { npm_config_cache: cache },
  memory: { MEMORY_FILE_PATH: join(dir, "memory", "graph.json") },
  forgetful: { MEMORY_FILE_PATH: join(dir, "closed", "graph.json") },
});

// checks are calls: [name, call, params, expectation].
function checks({ dir, port }) {
  const file = (name) => ({ path: join(dir, name) });
  const arg = (value) => ({ arg: String(value) });
  const entity = { entities: [{ name: "a", entityType: "b", observations: [] }] };
  const denied = 'error = "/EACCES|Permission denied/"';
  return [
    ["node reads", "filesystem__read_text_file", file("open/note.txt"), 'text = "open"'],
    ["node writes", "filesystem__write_file", { ...file("open/new.txt"), content: "x" }, 'text = "/Success/"'],
    ["node reads elsewhere", "filesystem__read_text_file", file("closed/note.txt"), denied],
    ["node writes elsewhere", "filesystem__write_file", { ...file("closed/note.txt"), content: "x" }, denied],
    ["node lists elsewhere", "filesystem__list_directory", file("closed"), denied],
    ["node moves out", "filesystem__move_file", { source: join(dir, "open/note.txt"), destination: join(dir, "closed/moved") }, 'error = "/EACCES|EXDEV/"'],
    ["read-only reads", "reader__read_text_file", file("open/note.txt"), 'text = "open"'],
    ["read-only does not write", "reader__write_file", { ...file("open/never.txt"), content: "x" }, denied],
    ["everything answers", "everything__echo", { message: "hello" }, 'text = "hello"'],
    ["memory remembers", "memory__create_entities", entity, `text = '/"a"/'`],
    ["memory without its file", "forgetful__create_entities", entity, denied],
    ["npx starts what is installed", "npx__echo", { message: "hello" }, 'text = "hello"'],
    ["npx starts what is in its cache", "cached__echo", { message: "hello" }, 'text = "hello"'],
    ["python reads", "python__read", arg(join(dir, "open/note.txt")), 'text = "open"'],
    ["python reads elsewhere", "python__read", arg(join(dir, "closed/note.txt")), denied],
    ["python writes", "python__write", arg(join(dir, "open/python.txt")), denied],
    ["python writes temporary files", "python__temporary", arg(""), 'text = "wrote 1"'],
    ["python connects to the port", "python__connect", arg(port), 'text = "connected"'],
    ["python connects to another port", "python__connect", arg(port ^ 1), denied],
    ["python runs programs", "python__run", arg("echo $((6 * 7))"), 'text = "42"'],
    ["a program reads elsewhere", "python__run", arg(`cat ${join(dir, "closed/note.txt")}`), 'error = "/CalledProcessError/"'],
    ["python allocates", "python__allocate", arg(100), 'text = "104857600"'],
    ["python allocates too much", "python__allocate", arg(400), 'error = "MemoryError"'],
    ["offline connects", "offline__connect", arg(port), denied],
    ["offline writes temporary files", "offline__temporary", arg(""), 'error = "/No usable temporary directory/"'],
  ];
}

function writeChecks(there, name, list) {
  const path = join(there.dir, `${name}.checks.toml`);
  const table = ([title, call, params, expect]) =>
    ["[[check]]", `name = ${text(title)}`, `call = ${text(call)}`, `params = { ${Object.entries(params).map(([k, v]) => `${k} = ${toml(v)}`)} }`, `expect.${expect}`];
  writeFileSync(path, `${list.flatMap(table).join("\n")}\n`);
  return path;
}

const toml = (v) =>
  Array.isArray(v) ? `[${v.map(toml)}]` : typeof v === "object" ? `{ ${Object.entries(v).map(([k, w]) => `${k} = ${toml(w)}`)} }` : text(v);

async function presets(setup, there) {
  there.cached = fillCache(there);
  const all = servers(setup, there).map(([name, command, args, sandbox]) => [name, command, args, sandbox.replace("@PORT@", there.port)]);
  there.config = configure(there, "presets", all, environment(there));
  const listed = setup.run("servers", "--json", "--config", there.config);
  const report = JSON.parse(listed.stdout || '{"servers": []}');
  const bad = report.servers.filter((s) => s.state !== "ready" || s.tools === 0 || !s.sandbox);
  equal(bad.map((s) => `${s.name} ${s.state} ${s.sandbox} ${s.error}`).join("; "), "", "servers that do not work");
  equal(report.servers.length, all.length, "servers");
  const list = checks(there);
  const run = setup.run("smoke", "--format", "json", "--config", there.config, writeChecks(there, "presets", list));
  const results = JSON.parse(run.stdout || "null")?.files.flatMap((f) => f.results) ?? [];
  const failed = results.filter((r) => r.status !== "passed");
  equal(failed.map((r) => `${r.name}: ${r.problems.map((p) => p.got ?? p.message)}`).join("; "), "", `failed checks (${run.stderr})`);
  equal(results.length, list.length, "checks");
  equal(readFileSync(join(there.dir, "closed/note.txt"), "utf8"), "closed\n", "the closed file");
  return `${all.length} servers, ${list.length} checks`;
}

// tried tries servers that need nothing else, and one that is refused something.
async function tried(setup, there) {
  for (const name of ["everything", "memory", "gosdk", "mcpgo", "conformance"]) {
    const run = setup.run("sandbox", "try", name, "--json", "--config", there.config);
    const report = JSON.parse(run.stdout || "{}");
    equal(run.status, 0, `exit code of ${name} (${run.stdout}${run.stderr})`);
    equal(text(report.refused), "[]", `what ${name} was refused`);
  }
  const file = writeChecks(there, "try", checks(there).filter(([, call]) => call === "filesystem__write_file"));
  const run = setup.run("sandbox", "try", "filesystem", file, "--json", "--config", there.config);
  const refused = JSON.parse(run.stdout || '{"refused": []}').refused;
  const [one] = refused.filter((r) => r.kind === "write");
  assert(one?.errno === "EACCES" && one.setting === `write = [${text(join(there.dir, "closed"))}]`, run.stdout + run.stderr);
}

async function learned(setup, there) {
  const bare = servers(setup, there).filter(([name]) => ["filesystem", "memory", "python"].includes(name)).map(([name, command, args]) => [name, command, args, ""]);
  const config = configure(there, "learn", bare, environment(there));
  const wanted = ["node reads", "node writes", "memory remembers", "python reads", "python writes temporary files", "python connects to the port", "python runs programs"];
  for (const [name] of bare) {
    const file = writeChecks(there, `learn-${name}`, checks(there).filter(([title, call]) => wanted.includes(title) && call.startsWith(`${name}__`)));
    const forget = () => rmSync(join(there.dir, "memory/graph.json"), { force: true }); // an entity is created once
    forget();
    const learn = setup.run("sandbox", "learn", name, file, "--add", "--yes", "--config", config);
    equal(learn.status, 0, `exit code of learn ${name} (${learn.stdout}${learn.stderr})`);
    forget();
    const again = setup.run("sandbox", "try", name, file, "--json", "--config", config);
    equal(again.status, 0, `exit code of try ${name} (${again.stdout}${again.stderr})`);
  }
  const written = readFileSync(config, "utf8");
  assert(written.includes(`network = [${there.port}]`), written);
  assert(!written.includes(`${text(there.dir)}]`), `too much was proposed: ${written}`);
}
