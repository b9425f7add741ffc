// Smoke tests: files of checks against real servers and recorded answers, their
// reports for programs, and their export and import with a tool.

import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { junit, tap } from "./formats.js";
import { assert, equal, none } from "./report.js";

const code = `
listing = filesystem.list_directory(path=params.dir)
names = sorted([line[7:] for line in listing.content.splitlines() if line.startswith("[FILE] ")])
print(len(names), "files")
said = parallel_map(lambda n: everything.echo(message=n), names)
print("token", everything.get_env().TOKEN)
memory.create_entities(entities=[{"name": n, "entityType": "file", "observations": []} for n in names])
return {"files": names, "said": said}
`;

export async function smoke(context) {
  const { report } = context;
  const there = begin(context.setup);
  await servers(context, there);
  await report.check("a server with other tools than in the lock: the report says which, exit code 1", () => otherLock(context, there));
  await recording(context, there);
  await report.check("failed checks of a server: each shows its place, the expected and the actual value", () => unmet(context, there));
  await formats(context, there);
  await report.check("a file with errors: all with line and column, other files run, exit code 2", () => wrong(context, there));
  await report.check("`--update` writes what real servers answer, and that passes", () => updated(context, there));
  await report.check("the examples of docs/smoke.md pass with the real server", () => documented(context, there));
  await carried(context, there);
  startUp(context, there);
}

// begin makes the directories and two versions of the upstreams' tables: one that
// works, and one in which a process that is started leaves a file and fails.
function begin(setup) {
  const [dir, listed] = [join(setup.dir, "smoke-tests"), join(setup.dir, "listed")];
  for (const path of [dir, listed]) mkdirSync(path);
  for (const name of ["one.txt", "two.txt"]) writeFileSync(join(listed, name), name);
  const upstreams = setup.upstreams("smoke");
  upstreams.filesystem.args[1] = listed;
  upstreams.everything.env = { TOKEN: "${E2E_SECRET}" };
  const started = join(dir, "started");
  const broken = { command: "sh", args: ["-c", 'echo "$0" >> "$1"; exit 3', "started", started] };
  const notStarting = Object.fromEntries(Object.entries(upstreams).map(([name, { env }]) => [name, { ...broken, env }]));
  writeFileSync(join(dir, "survey.star"), code);
  const live = tables(setup, "smoke", upstreams);
  const everything = live.slice(live.indexOf("[upstream.everything]"), live.indexOf("[upstream.filesystem]"));
  return { dir, listed, started, notStarting, live, everything, broken: tables(setup, "smoke-broken", notStarting) };
}

function tables(setup, name, upstreams) {
  const text = readFileSync(setup.configure(name, upstreams), "utf8");
  return text.slice(text.indexOf("[store]"));
}

// write writes a file of checks and returns its path.
function write(there, name, ...texts) {
  const path = join(there.dir, name);
  writeFileSync(path, texts.join("\n"));
  return path;
}

// smoked runs the checks of files. report is the report of --format json, and all is
// an object with the results by name.
function smoked(setup, status, ...args) {
  const run = setup.run("smoke", "--format", "json", ...args);
  const report = JSON.parse(run.stdout || "null");
  assert(report, `no report, exit code ${run.status}: ${run.stderr}`);
  const all = Object.fromEntries(report.files.flatMap((f) => f.results).map((r) => [r.name, r]));
  equal(run.status, status, `exit code (${failures(all)}${report.files.map((f) => f.error)}${run.stderr})`);
  equal(report.summary.exitCode, status, "exit code in the report");
  return { all, summary: report.summary, stderr: run.stderr };
}

const failures = (all) =>
  Object.values(all)
    .filter((r) => r.status !== "passed")
    .map((r) => `${r.name} ${r.status}: ${r.problems.map((p) => `${p.what} ${p.path} ${p.message} ${p.got}`).join("; ")}`);

const composite = ({ listed }) => `
[[check]]
name = "composite"
call = "survey"
code = "survey.star"
params = { dir = ${JSON.stringify(listed)} }
mock = "survey.cassette.toml"
expect.result = { files = ["one.txt", "two.txt"], said = ["Echo: one.txt", "Echo: two.txt"] }
expect.logs = ["2 files", "/^token ./"]
expect.calls = ["filesystem.list_directory", "everything.echo", "everything.echo", "everything.get-env", "memory.create_entities"]
expect.max_fuel = 50_000_000
expect.max_memory = "64MB"
`;

const serverChecks = `
[[check]]
server = "everything"
expect.protocol = "2025-11-25"
expect.capabilities = { tools = {}, resources = { subscribe = true }, logging = {} }
expect.tools = ["echo", "get-sum", "get-tiny-image"]
expect.resources = ["demo://resource/static/document/features.md"]
expect.templates = ["demo://resource/dynamic/text/{resourceId}"]
expect.prompts = ["simple-prompt", "args-prompt"]
expect.schema_lock = "servers.lock.json"

[[check]]
server = "filesystem"
expect.tools = ["read_text_file", "list_directory"]
expect.schema_lock = "servers.lock.json"
expect.max_duration = "20s"

[[check]]
server = "memory"
expect.tools = ["create_entities"]
expect.resources = ["memory://knowledge-graph"]
expect.schema_lock = "servers.lock.json"
`;

const callChecks = `
[[check]]
name = "text, plain and as a regular expression"
call = "everything__get-sum"
params = { a = 2, b = 3 }
meta = { "example.com/trace" = "smoke 00-4bf9" }
expect.text = ["The sum of", '/\\b5\\b/']
expect.is_error = false
expect.max_duration = "10s"

[[check]]
name = "exactly, in part and by a schema"
call = "everything__get-structured-content"
params = { location = "New York" }
expect.result = { temperature = 33, conditions = "Cloudy", humidity = 82 }
expect.subset = { temperature = 33.0 }
expect.schema = { type = "object", required = ["humidity"], properties = { temperature = { type = "number", minimum = -90 } } }

[[check]]
name = "a tool's error"
call = "filesystem__read_text_file"
params = { path = "/nowhere/at/all" }
expect.is_error = true
expect.error = "/(?i)access denied/"

[[check]]
name = "a protocol error"
call = "filesystem__no_such_tool"
expect.error_code = -32602

[[check]]
name = "the receipt of a script in _meta"
call = "eval_starlark"
params = { code = "return everything.get_sum(a=1, b=2)" }
expect.meta = { "io.github.mcp-metatool/receipt" = { calls = 1 } }

[[check]]
name = "an image"
call = "everything__get-tiny-image"
expect.image = { mime = "image/png", width = 20, height = 20, count = 1 }

[[check]]
name = "progress"
call = "everything__trigger-long-running-operation"
params = { duration = 0.4, steps = 4 }
expect.progress = 4

[[check]]
name = "cancelled"
call = "everything__trigger-long-running-operation"
params = { duration = 1.6, steps = 1 }
cancel_after = "200ms"
expect.cancelled_within = "500ms"

[[check]]
name = "a script cancelled"
code = """
everything["trigger-long-running-operation"](duration=1.6, steps=1)
"""
cancel_after = "200ms"
expect.cancelled_within = "500ms"
`;

async function servers({ setup, report }, there) {
  const file = write(there, "servers.toml", there.live, serverChecks, callChecks, composite(there));
  there.servers = file;
  await report.check("three servers, live, with --record: handshakes, lists, answers, errors, images, progress, cancelled calls, a script", async () => {
    const { summary, stderr } = smoked(setup, 0, "--record", "--jobs", "4", file);
    for (const name of ["everything", "filesystem", "memory"]) assert(stderr.includes(`definitions of "${name}"`), stderr);
    assert(/wrote .*survey\.cassette\.toml/.test(stderr), stderr);
    return `${summary.checks} checks in ${summary.duration.toFixed(1)} s`;
  });
  await report.check("the server received _meta as in the file, a progress token, the cancellation", async () => {
    const sent = setup.tapped("smoke");
    const sum = sent.find((m) => m.raw.includes("smoke 00-4bf9"))?.value.params;
    equal(sum?._meta["example.com/trace"], "smoke 00-4bf9", "_meta");
    const slow = sent.filter((m) => m.value.params?.name === "trigger-long-running-operation");
    assert(slow.length === 3 && slow.every((m) => m.value.params._meta?.progressToken !== undefined), `slow calls: ${slow.map((m) => m.raw)}`);
    const cancelled = sent.filter((m) => m.value.method === "notifications/cancelled").map((m) => m.value.params.requestId);
    equal(cancelled.length, 2, "cancellations");
    none("cancelled that was not under way", cancelled.filter((id) => !slow.some((m) => m.value.id === id)));
  });
  await report.check("a second run: the same as in the lock; nothing is left in the configured store", async () => {
    const lock = readFileSync(join(there.dir, "servers.lock.json"), "utf8");
    const { all } = smoked(setup, 0, "--filter", "/^(everything|filesystem|memory)$/", file);
    equal(Object.keys(all).length, 3, "checks");
    equal(readFileSync(join(there.dir, "servers.lock.json"), "utf8"), lock, "the lock");
    assert(!existsSync(join(setup.dir, "smoke")), "the store of the file was written to");
    return `lock of ${lock.length} bytes`;
  });
}

// otherLock puts a filter behind the server that changes the tools it offers.
async function otherLock({ setup }, there) {
  const memory = setup.upstreams("smoke").memory;
  const filter = `s/Read the entire knowledge graph/Something else/; s/"open_nodes"/"see_nodes"/`;
  memory.args[1] = `"$0" "$1" | sed -u '${filter}'`;
  const other = tables(setup, "smoke-other", { memory });
  const check = serverChecks.slice(serverChecks.lastIndexOf("[[check]]"));
  const { all } = smoked(setup, 1, write(there, "otherlock.toml", other, check));
  const problems = all.memory.problems.map((p) => `${p.path} ${p.message} ${p.want} ${p.got}`);
  for (const text of ["read_graph", "Something else", "open_nodes", "see_nodes"]) assert(problems.join().includes(text), `no ${text} in ${problems}`);
  assert(!problems.join().includes("create_entities"), `what is the same is told: ${problems}`);
}

async function recording({ setup, report }, there) {
  const cassette = join(there.dir, "survey.cassette.toml");
  await report.check("the cassette has the answers of the real servers, and no secret", async () => {
    const text = readFileSync(cassette, "utf8");
    equal(text.match(/^\[\[interaction\]\]$/gm)?.length, 5, "interactions");
    assert(text.includes("Echo: two.txt") && text.includes("****"), text);
    assert(!text.includes(setup.secret), "the secret is in it");
    return `${text.length} bytes`;
  });
  const file = write(there, "recorded.toml", there.broken, composite(there), '[[check]]\nname = "live"\ncall = "everything__echo"\n');
  await report.check("from the cassette, with servers that cannot start: it passes, and starts no process", async () => {
    const { all } = smoked(setup, 0, "--filter", "composite", file);
    assert(!existsSync(there.started), "a server was started");
    return `${(all.composite.duration * 1000).toFixed(1)} ms`;
  });
  await report.check("a check that needs such a server is broken, and other checks still run", async () => {
    const { all } = smoked(setup, 1, file);
    assert(existsSync(there.started), "no server was started");
    equal(`${all.composite.status} ${all.live.status}`, "passed broken", "the two checks");
    assert(all.live.problems[0]?.line > 0, JSON.stringify(all.live));
    return all.live.problems[0].message;
  });
  await report.check("a script fails if its call is not in the cassette", async () => {
    writeFileSync(join(there.dir, "other.star"), code.replace("message=n", "message=n.upper()"));
    const other = write(there, "other.toml", composite(there).replace("survey.star", "other.star"));
    const { all } = smoked(setup, 1, other);
    const said = JSON.stringify(all.composite.problems);
    assert(said.includes("everything.echo") && said.includes("ONE.TXT"), said);
  });
}

async function unmet({ setup }, there) {
  const check = (name, rest) => `[[check]]\nname = "${name}"\ncall = "everything__get-structured-content"\nparams = { location = "New York" }\n${rest}\n`;
  const cases = {
    exact: ["expect.result = { temperature = 33, conditions = 'Cloudy', humidity = 1 }", "expect.result", "$.humidity", "82"],
    part: ["expect.subset = { conditions = 'Sunny' }", "expect.subset", "$.conditions", "Cloudy"],
    schema: ["expect.schema = { properties = { temperature = { type = 'string' } } }", "expect.schema", "$.temperature", "33"],
    text: ["expect.text = '/^Sunny/'", "expect.text", undefined, "Cloudy"],
    error: ["expect.is_error = true", "expect.is_error", undefined, ""],
    progress: ["expect.progress = true", "expect.progress", undefined, ""],
    image: ["expect.image = true", "expect.image", undefined, ""],
  };
  const file = write(there, "unmet.toml", there.everything, ...Object.entries(cases).map(([name, [rest]]) => check(name, rest)));
  const text = readFileSync(file, "utf8").split("\n");
  const { all, summary } = smoked(setup, 1, file);
  equal(`${summary.failed} of ${summary.checks}`, "7 of 7", "failed checks");
  for (const [name, [, what, path, got]] of Object.entries(cases)) {
    const [problem, ...more] = all[name].problems;
    equal(more.length, 0, `further problems of "${name}": ${JSON.stringify(more)}`);
    equal(problem.what, what, `what of "${name}"`);
    if (path) equal(problem.path, path, `path of "${name}"`);
    assert(problem.got.includes(got), `"${name}" got ${problem.got}`);
    assert(text[problem.line - 1].slice(problem.column - 1).startsWith(what.slice("expect.".length)), `"${name}" is at ${problem.line}:${problem.column}`);
  }
}

// offline is a file that needs no server; one of its three checks fails.
const offline = `
[[check]]
name = "adds & <compares>"
code = """
return params.a + params.b
"""
params = { a = 2, b = 3 }
expect.result = 5

[[check]]
name = "counts ships"
code = """
found = harbour.list_ships()
print(len(found.ships), "ships")
return {"open": len(found.ships), "port": found.port}
"""
mock = [{ tool = "harbour.list_ships", returns = { ships = ["Aurora", "Borealis"], port = "Oslo" } }]
expect.result = { open = 3, port = "Oslo" }
expect.logs = ["2 ships"]

[[check]]
name = "gives up"
code = """
fail("no luck")
"""
expect.error_type = "runtime"
expect.error = "/luck$/"
`;

async function formats({ setup, report }, there) {
  there.offline = write(there, "offline.toml", offline);
  const run = (format, ...args) => {
    const { status, stdout, stderr } = setup.run("smoke", "--format", format, ...args, there.offline);
    equal(status, 1, `exit code (${stdout}${stderr})`);
    equal(stderr, "", "stderr");
    return stdout;
  };
  const names = ["adds & <compares>", "counts ships", "gives up"];
  await report.check("one failing check of three, as text, TAP, JUnit, JSON and for GitHub", async () => {
    const text = run("text");
    assert(/^ {2}ok +adds.*\n {2}FAILED +counts ships/m.test(text) && text.includes('-  "open": 3,') && text.includes('+  "open": 2,'), text);
    assert(/^3 checks in 1 file: 2 passed, 1 failed/m.test(text), text);

    const { points, plan } = tap(run("tap"));
    equal(plan, 3, "plan of TAP");
    equal(points.map((p) => p.ok).join(), "true,false,true", "points of TAP");
    equal(points.map((p) => p.description.split(": ").at(-1)).join(), names.join(), "names in TAP");

    const xml = junit(run("junit"));
    equal(`${xml.tests} ${xml.failures} ${xml.errors}`, "3 1 0", "counts of JUnit");
    equal(xml.cases.map((c) => c.name).join(), names.join(), "names in JUnit");
    assert(xml.cases[1].failure?.includes('+  "open": 2,'), `failure in JUnit: ${JSON.stringify(xml.cases)}`);

    const json = JSON.parse(run("json"));
    equal(json.files[0].results.map((r) => `${r.name} ${r.status}`).join(), "adds & <compares> passed,counts ships failed,gives up passed", "results in JSON");

    const marks = run("github").split("\n").filter((line) => line.startsWith("::error "));
    equal(marks.length, 1, "marks for GitHub");
    const line = offline.slice(0, offline.indexOf("expect.result = { open")).split("\n").length;
    assert(new RegExp(`file=[^,]*offline\\.toml,line=${line},`).test(marks[0]) && marks[0].includes("counts ships"), marks[0]);
  });
  await report.check("`--output`: the report in a file, and lines for people on the terminal", async () => {
    const path = join(there.dir, "report.xml");
    assert(/FAILED +counts ships/.test(run("junit", "--output", path)), "no lines for people");
    equal(junit(readFileSync(path, "utf8")).tests, 3, "tests in the file");
  });
}

async function wrong({ setup }, there) {
  const file = write(there, "wrong.toml", '[[check]]\nname = "x"\ncall = "everything__echo"\n  parms = { message = "x" }\nexpect.txt = "x"\n');
  const run = setup.run("smoke", file, there.offline);
  equal(run.status, 2, `exit code (${run.stdout}${run.stderr})`);
  for (const at of ["wrong.toml:4:3: ", "wrong.toml:5:8: "]) assert(run.stdout.includes(at), `no ${at} in ${run.stdout}`);
  assert(run.stdout.includes('"params"') && run.stdout.includes('"text"'), `no names that are near: ${run.stdout}`);
  assert(run.stdout.includes("counts ships"), "the other file was not run");
  const syntax = setup.run("smoke", write(there, "syntax.toml", '[[check]]\nname = "x\n'));
  equal(syntax.status, 2, "exit code of what is no TOML");
  assert(/syntax\.toml:2:\d+: /.test(syntax.stdout), syntax.stdout);
  equal(setup.run("smoke", join(there.dir, "none.toml")).status, 2, "exit code without a file");
}

async function updated({ setup }, there) {
  const text = `
[[check]] # of real servers
name = "sum"
call = "everything__get-sum"
params = { a = 2, b = 40 }
expect.text = "The sum of 1 and 1 is 2." # to be changed

[[check]]
name = "twice"
code = """
return [everything.echo(message=m) for m in params.messages]
"""
params = { messages = ["a", "b"] }
expect.result = ""
expect.calls = []
`;
  const file = write(there, "update.toml", there.everything, text);
  smoked(setup, 0, "--update", file);
  const after = readFileSync(file, "utf8");
  const want = text
    .replace("1 and 1 is 2.", "2 and 40 is 42.")
    .replace('expect.result = ""', 'expect.result = ["Echo: a", "Echo: b"]')
    .replace("expect.calls = []", 'expect.calls = ["everything.echo", "everything.echo"]');
  equal(after, `${there.everything}\n${want}`, "the file");
  smoked(setup, 0, file);
}

// documented writes the examples that use server-everything, with the installed
// server instead of the one that npx would fetch.
async function documented({ setup }, there) {
  const dir = join(there.dir, "documented");
  mkdirSync(dir);
  const docs = readFileSync(new URL("../../docs/smoke.md", import.meta.url), "utf8");
  const npx = /^\[upstream\.everything\]\ncommand = "npx"\nargs = .*\n/m;
  let live = 0;
  for (const [, name, text] of docs.matchAll(/^```(?:toml|starlark)\n# (\S+)\n(.*?)^```$/gms)) {
    live += npx.test(text);
    writeFileSync(join(dir, name), text.replace(npx, () => there.everything));
  }
  assert(live >= 3, `${live} files with server-everything`);
  const commands = [...docs.matchAll(/^mcp-metatool smoke (\S+\.toml) (--\w+)$/gm)];
  const named = (flag) => commands.filter((found) => found[2] === flag).map(([, name]) => join(dir, name));
  const recorded = named("--record");
  assert(recorded.length >= 2, `only ${recorded} are recorded`);
  smoked(setup, 0, "--record", ...recorded);
  const snapshots = named("--update");
  assert(snapshots.length >= 1, "no file has snapshots");
  smoked(setup, 0, "--update", ...snapshots);
  return `${smoked(setup, 0, "--jobs", "4", dir).summary.checks} checks`;
}

async function carried({ setup, report }, there) {
  // Scripts are compiled for the servers of a configuration, without starting them.
  const from = setup.configure("carried", there.notStarting);
  const store = join(setup.dir, "carried");
  const to = join(setup.dir, "reviewed");
  const elsewhere = setup.configure("arrived", there.notStarting);
  const ok = (...args) => {
    const { status, stdout, stderr } = setup.run(...args);
    equal(status, 0, `exit code of ${args.join(" ")} (${stdout}${stderr})`);
    return stdout;
  };
  const shown = (config) => JSON.parse(ok("tools", "show", "survey", "--json", "--config", config));
  const beside = ["survey.toml", "survey.cassette.toml"];
  await report.check("`tools export` writes a tool with its smoke test and cassette, `tools import` brings them elsewhere, where the test passes", async () => {
    const inputSchema = { type: "object", properties: { dir: { type: "string" } }, required: ["dir"] };
    const tool = { version: "1.0", name: "survey", description: "Says the names of files", inputSchema, code };
    ok("tools", "import", "--yes", write(there, "survey.json", JSON.stringify(tool)), "--config", from);
    mkdirSync(join(store, "smoke"));
    writeFileSync(join(store, "smoke", beside[0]), `[store]\ndir = ".."\n${composite(there).replace('call = "survey"\n', "").replace('"survey.star"', '"survey"')}`);
    writeFileSync(join(store, "smoke", beside[1]), readFileSync(join(there.dir, beside[1])));
    smoked(setup, 0, join(store, "smoke"));
    ok("tools", "export", "--out", to, "--config", from);
    equal(readFileSync(join(to, "survey.star"), "utf8").trim(), code.trim(), "the script in the export");
    const dry = ok("tools", "import", "--dry-run", to, "--config", elsewhere);
    assert(dry.includes("+") && dry.includes("parallel_map") && dry.includes(beside[1]), dry);
    assert(!existsSync(join(setup.dir, "arrived", "tools", "survey.json")), "--dry-run has saved something");
    ok("tools", "import", "--yes", to, "--config", elsewhere);
    for (const name of beside) {
      equal(readFileSync(join(setup.dir, "arrived", "smoke", name), "utf8"), readFileSync(join(store, "smoke", name), "utf8"), name);
    }
    for (const member of ["name", "description", "inputSchema", "code"]) {
      equal(JSON.stringify(shown(elsewhere)[member]), JSON.stringify(shown(from)[member]), member);
    }
    const { all } = smoked(setup, 0, join(setup.dir, "arrived", "smoke"));
    equal(Object.keys(all).join(), "composite", "checks there");
  });
  await report.check("an import of a changed tool shows the changes, `tools history` has both versions, `tools revert` restores the old one", async () => {
    const script = join(to, "survey.star");
    writeFileSync(script, readFileSync(script, "utf8").replace('"said": said', '"said": len(said)'));
    const asked = setup.run("tools", "import", to, "--config", elsewhere);
    equal(asked.status, 2, `exit code without --yes and terminal (${asked.stdout}${asked.stderr})`);
    const diff = ok("tools", "import", "--yes", to, "--config", elsewhere);
    assert(/^-.*"said": said/m.test(diff) && /^\+.*"said": len\(said\)/m.test(diff), diff);
    const { all } = smoked(setup, 1, join(setup.dir, "arrived", "smoke"));
    equal(all.composite.problems[0].path, "$.said", "where its test fails now");
    const history = JSON.parse(ok("tools", "history", "survey", "--json", "--config", elsewhere));
    equal(history.length, 2, "forms");
    equal(history[0].changed.join(), "code", "what changed");
    ok("tools", "revert", "survey", "--config", elsewhere);
    smoked(setup, 0, join(setup.dir, "arrived", "smoke"));
  });
}

// startUp measures how long a file without servers takes.
function startUp({ setup }, there) {
  const times = [1, 2, 3, 4, 5].map(() => {
    const started = performance.now();
    setup.run("smoke", there.offline);
    return Math.round(performance.now() - started);
  });
  console.log(`        a file of three checks without servers, from start to exit: ${times.join(", ")} ms`);
}
