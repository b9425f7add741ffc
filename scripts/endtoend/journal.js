// The journal: records of runs with real servers, replays on another machine,
// secrets that are not recorded, and its page in a browser.

import { spawnSync } from "node:child_process";
import { appendFileSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chromium, look, picture } from "./browser.js";
import { assert, equal } from "./report.js";

const receiptKey = "io.github.mcp-metatool/receipt";
const operation = "trigger-long-running-operation";

const survey = {
  name: "survey",
  description: "Says the names of the files of a directory, and notes them",
  inputSchema: { type: "object", properties: { dir: { type: "string" } }, required: ["dir"] },
  code: `
listing = filesystem.list_directory(path=params.dir)
names = sorted([line[7:] for line in listing.content.splitlines() if line.startswith("[FILE] ")])
print("found", len(names), "files")
said = parallel_map(lambda n: everything.echo(message=n), names)
everything.trigger_long_running_operation(duration=0.3, steps=3)
made = memory.create_entities(entities=[{"name": n, "entityType": "file", "observations": []} for n in names])
return {"files": names, "said": said, "created": len(made.entities)}
`.trimStart(),
};
const files = ["one.txt", "two.txt", "three.txt"];
const calls = ["filesystem.list_directory", ...files.map(() => "everything.echo"), `everything.${operation}`, "memory.create_entities"];

// leaky gets the secret from the client and from a server, and passes it on
// wherever possible.
const leaky = `
said = everything.echo(message="the token is " + params.token)
everything.echo(message=params.encoded)
env = everything.get_env()
print("env has", env.TOKEN)
memory.create_entities(entities=[{"name": env.TOKEN, "entityType": "token", "observations": [said]}])
if params.fail:
    fail("rejected: " + env.TOKEN)
return {"said": said, "env": env.TOKEN}
`;

const structured = (answer) => answer.value.result.structuredContent;
const lines = (text) => text.split("\n").filter((line) => line);

export async function journal(context) {
  const { setup, report } = context;
  const there = begin(setup);
  const session = setup.serve(there.config);
  await session.initialize();
  await recorded(context, there, session);
  await replayed(context, there);
  await page(context, there);
  await secrets(context, there, session);
  await session.close();
  await report.check("a run whose process was killed is unfinished, with the calls it had made; a torn line is skipped", () => killed(context, there));
}

// begin makes the servers' directory and the configuration.
function begin(setup) {
  const surveyed = join(setup.dir, "surveyed");
  mkdirSync(surveyed);
  for (const name of files) writeFileSync(join(surveyed, name), name);
  const upstreams = setup.upstreams("journal");
  upstreams.filesystem.args[1] = surveyed;
  upstreams.everything.env = { TOKEN: "${E2E_SECRET}" };
  const config = setup.configure("journal", upstreams);
  appendFileSync(config, '[journal]\nproxied = "full"\nredact = [\'\\b\\d{4}-\\d{4}\\b\']\n');
  return { config, surveyed, logs: join(setup.dir, "journal", "logs") };
}

// listed returns the output of `runs list`, an object for each run, newest first.
function listed(setup, config, ...args) {
  const { status, stdout, stderr } = setup.run("runs", "list", "--json", "--config", config, ...args);
  equal(status, 0, `exit code of runs list (${stderr})`);
  return lines(stdout).map((line) => JSON.parse(line));
}

async function recorded({ setup, report }, there, session) {
  await report.check("`runs list --json` has the run of a saved tool, by the id of its receipt, and one that failed", async () => {
    await session.call("save_tool", survey);
    const params = { name: survey.name, arguments: { dir: there.surveyed }, _meta: { progressToken: "steps", "example.com/trace": "of the run" } };
    const answer = await session.request("tools/call", params);
    there.answer = structured(answer);
    there.receipt = answer.value.result._meta[receiptKey];
    equal(there.answer.result?.created, files.length, `created, of ${answer.raw.slice(0, 400)}`);
    await session.call(survey.name, { dir: "/nowhere" });
    const [bad, good, ...more] = listed(setup, there.config);
    equal(more.length, 0, "further runs");
    equal(`${good.id} ${good.tool} ${good.outcome} ${good.calls} ${good.fuel}`, `${there.receipt.run} survey ok ${calls.length} ${there.receipt.fuel}`, "the run");
    equal(`${bad.outcome} ${bad.calls}`, "tool 1", "the run that failed");
    assert(bad.id > good.id, `ids do not sort: ${bad.id}, ${good.id}`);
    equal(good.client, "e2e", "client");
    equal(listed(setup, there.config, "--outcome", "error", "--tool", "survey").map((r) => r.id).join(), bad.id, "runs with an error");
  });
  await report.check("`runs show`: a waterfall for people; with --json each call with its whole answer, and what came with the request", () => shown(setup, there));
}

async function shown(setup, there) {
  const { status, stdout, stderr } = setup.run("runs", "show", there.receipt.run, "--config", there.config);
  equal(status, 0, `exit code (${stderr})`);
  for (const call of new Set(calls)) assert(stdout.includes(call.slice(0, 16)), `no ${call} in:\n${stdout}`);
  assert(stdout.includes("found 3 files"), stdout);

  there.exported = setup.run("runs", "show", there.receipt.run, "--json", "--config", there.config).stdout;
  const events = lines(there.exported).map((line) => JSON.parse(line));
  assert(events.every((e) => e.run === there.receipt.run), "events of other runs");
  const of = (t) => events.filter((e) => e.t === t);
  equal(of("call").map((e) => `${e.server}.${e.tool}`).join(), calls.join(), "calls");
  const answers = of("answer");
  equal(answers.length, calls.length, "answers");
  equal(JSON.stringify(answers.map((e) => e.result.content?.length > 0)), JSON.stringify(calls.map(() => true)), "whole results");
  equal(answers.find((a) => a.progress)?.progress, 3, "progress of the long operation");
  equal(JSON.stringify(of("begin")[0].meta), '{"example.com/trace":"of the run"}', "meta");
  // The calls of parallel_map are in flight at the same time.
  const echoes = answers.filter((a) => a.seq >= 2 && a.seq <= 4);
  const [last, first] = [Math.max(...echoes.map((a) => a.start)), Math.min(...echoes.map((a) => a.start + a.duration))];
  assert(last < first, "the calls of parallel_map do not overlap");
  return `${there.exported.length} bytes`;
}

// elsewhere runs the binary as on another machine: with no configuration, no store
// and an empty environment without PATH, but with the same cache of the sandbox.
function elsewhere(setup, ...args) {
  const home = join(setup.dir, "elsewhere");
  mkdirSync(home, { recursive: true });
  const env = { HOME: home, XDG_CACHE_HOME: setup.env.XDG_CACHE_HOME };
  const result = spawnSync(setup.binary, args, { env, cwd: home, encoding: "utf8", timeout: 40_000 });
  setup.outputs.push(result.stdout + result.stderr);
  equal(readdirSync(home).filter((name) => name !== "run.jsonl").join(), "", "what was made there");
  return result;
}

async function replayed({ setup, report }, there) {
  await report.check("`replay`: identical result, log, calls, fuel and memory", async () => {
    const { status, stdout, stderr } = setup.run("replay", there.receipt.run, "--json", "--config", there.config);
    equal(status, 0, `exit code (${stdout}${stderr})`);
    const replay = JSON.parse(stdout);
    equal(replay.verdict, "identical", "verdict");
    equal(JSON.stringify(replay.replayed.result), JSON.stringify(there.answer.result), "result");
    equal(replay.replayed.fuel, there.receipt.fuel, "fuel");
    equal(`${replay.compared.calls} ${replay.compared.logs}`, `${calls.length} 1`, "calls and logs that were compared");
    return `${replay.replayed.fuel} of fuel`;
  });
  await report.check("the failed run fails in the same way", async () => {
    const { status, stdout, stderr } = setup.run("replay", "last", "--json", "--config", there.config);
    equal(status, 0, `exit code (${stdout}${stderr})`);
    const { verdict, replayed } = JSON.parse(stdout);
    equal(`${verdict} ${replayed.outcome}`, "identical tool", "verdict and outcome");
  });
  const file = join(setup.dir, "elsewhere", "run.jsonl");
  await report.check("an exported run is replayed without configuration, journal, servers and PATH", async () => {
    mkdirSync(join(setup.dir, "elsewhere"));
    writeFileSync(file, there.exported);
    const { status, stdout, stderr } = elsewhere(setup, "replay", file);
    equal(status, 0, `exit code (${stdout}${stderr})`);
    assert(/identical/.test(stdout), stdout);
    return lines(stdout)[0];
  });
  await report.check("`replay --with`: a fix works with the recorded answers; a call that was never made is shown; other code diverges", async () => {
    const script = (name, code) => {
      const path = join(setup.dir, name);
      writeFileSync(path, code);
      return elsewhere(setup, "replay", file, "--with", path, "--json");
    };
    const fixed = script("fixed.star", survey.code.replace("len(made.entities)", '"all " + str(len(made.entities))'));
    equal(fixed.status, 0, `exit code of the fix (${fixed.stdout}${fixed.stderr})`);
    equal(JSON.parse(fixed.stdout).replayed.result.created, "all 3", "its result");
    const other = script("other.star", 'memory.read_graph()\nreturn 1');
    equal(other.status, 1, `exit code of other code (${other.stdout}${other.stderr})`);
    equal(JSON.parse(other.stdout).missing?.tool, "read_graph", "the call without an answer");
  });
}

async function secrets({ setup, report }, there, session) {
  const { secret } = setup;
  await report.check("runs and proxied calls with a secret in arguments, answers, logs, _meta, code and errors work", async () => {
    const { raw } = await session.call("everything__echo", { message: `proxied ${secret} 1234-5678` });
    assert(raw.includes(`Echo: proxied ${secret}`), `it never got to the server: ${raw}`);
    for (const fail of [false, true]) {
      const params = { token: secret, fail, encoded: encoded(`x:${secret}`) };
      const meta = { "example.com/key": secret, [secret]: 1 };
      const code = `# ${secret}\n${leaky}`;
      const answer = await session.request("tools/call", { name: "eval_starlark", arguments: { code, params }, _meta: meta });
      equal(!!answer.value.result.isError, fail, `isError of ${answer.raw.slice(0, 400)}`);
      assert(answer.raw.includes(secret), `the client does not get it: ${answer.raw.slice(0, 400)}`);
    }
    const proxied = listed(setup, there.config, "--proxied");
    equal(proxied.map((p) => `${p.tool} ${p.outcome}`).join(), "everything.echo ok", "proxied calls");
  });
  await report.check("the secret is in no file of the journal, neither plain nor in base64 or hexadecimal digits; nor is what `redact` matches", async () => {
    equal((statSync(there.logs).mode & 0o777).toString(8), "700", "mode of the directory");
    let all = "";
    for (const name of readdirSync(there.logs)) {
      const path = join(there.logs, name);
      equal((statSync(path).mode & 0o777).toString(8), "600", `mode of ${name}`);
      all += readFileSync(path, "utf8");
    }
    const hidden = [secret, "1234-5678", Buffer.from(secret).toString("hex"), ...[0, 1, 2].map((n) => middle(secret, n))];
    for (const text of hidden) {
      const at = all.indexOf(text);
      assert(at < 0, `${text} is in: ${all.slice(Math.max(0, at - 300), at + 60)}`);
    }
    const redacted = lines(all).filter((line) => JSON.parse(line).redacted);
    assert(redacted.length > 12, `only ${redacted.length} lines had something to hide`);
    assert(redacted.some((line) => JSON.parse(line).t === "proxied"), "nothing of the proxied call is hidden");
    return `${all.length} bytes, hidden in ${redacted.length} lines`;
  });
  await report.check("the output of `runs show` and `replay` for such runs does not have it either", async () => {
    const runs = listed(setup, there.config, "--tool", "eval_starlark");
    equal(runs.map((r) => r.outcome).join(), "runtime,ok", "outcomes");
    const verdicts = runs.map(({ id }) => {
      for (const args of [["--calls"], ["--json"], ["--html", "-"]]) {
        const { stdout, stderr } = setup.run("runs", "show", id, "--config", there.config, ...args);
        assert(stdout.includes("****") && !stdout.includes(secret), `runs show ${args.join(" ")}: ${stderr}`);
      }
      const { stdout, stderr } = setup.run("replay", id, "--json", "--config", there.config);
      assert(stdout && !stdout.includes(secret), `replay: ${stdout}${stderr}`);
      return JSON.parse(stdout).verdict;
    });
    return `replays of what is masked: ${verdicts.join(", ")}`;
  });
}

const encoded = (text) => ["base64", "hex"].map((way) => Buffer.from(text).toString(way)).join(" ");

// middle returns the base64 digits of a text that begins n bytes after a multiple of
// three: only the digits that depend on nothing but the text.
function middle(text, n) {
  const encoded = Buffer.from("x".repeat(n) + text).toString("base64");
  return encoded.slice(Math.ceil((n * 8) / 6), Math.floor(((n + text.length) * 8) / 6));
}

async function page({ setup, report }, there) {
  const file = join(setup.dir, "run.html");
  await report.check("`runs show --html`: a page that only its user can read", async () => {
    const { status, stderr } = setup.run("runs", "show", there.receipt.run, "--html", file, "--config", there.config);
    equal(status, 0, `exit code (${stderr})`);
    equal((statSync(file).mode & 0o777).toString(8), "600", "mode");
    const text = readFileSync(file, "utf8");
    for (const call of calls) assert(text.includes(call), `no ${call}`);
    return `${text.length} bytes`;
  });
  const browser = chromium();
  if (!browser) {
    console.log("        not checked: how the page looks, and that it asks for nothing (there is no Chromium in PATH)");
    return;
  }
  await report.check("in Chromium the page makes no requests, and a screenshot shows it", async () => {
    const size = { width: 1000, height: 720 };
    const env = { ...setup.env, XDG_CONFIG_HOME: join(setup.dir, "config") };
    const { requests, screenshot } = await look(browser, readFileSync(file, "utf8"), { ...size, dir: setup.dir, env });
    equal(requests.join("; "), "", "requests");
    const { width, height, colours } = picture(screenshot);
    equal(`${width}x${height}`, `${size.width}x${size.height}`, "size");
    assert(colours > 20, `${colours} colours: nothing is to be seen`);
    return `${screenshot.length} bytes, ${colours} colours`;
  });
}

// killed kills the binary in the middle of a run, and leaves half a line in the
// journal.
async function killed({ setup }, there) {
  const session = setup.serve(there.config);
  await session.initialize();
  const code = `everything.echo(message="before")\neverything["${operation}"](duration=1.5, steps=15)`;
  session.start("tools/call", JSON.stringify({ name: "eval_starlark", arguments: { code }, _meta: { progressToken: "on" } }));
  await session.wait("progress of the second call", (m) => m.method === "notifications/progress" && m.params.progress > 1);
  session.child.kill("SIGKILL");
  await session.closed;
  const newest = readdirSync(there.logs).filter((name) => name.endsWith(".jsonl")).sort().at(-1);
  appendFileSync(join(there.logs, newest), '{"t":"end","run":"torn');

  const alone = setup.configure("after", {});
  appendFileSync(alone, `[journal]\ndir = ${JSON.stringify(there.logs)}\n`);
  const after = setup.serve(alone);
  await after.initialize();
  await after.call("eval_starlark", { code: "return 1" });
  await after.close();
  const [next, run] = listed(setup, there.config);
  equal(`${next.outcome} ${next.calls}`, "ok 0", "the run after that");
  equal(`${run.outcome} ${run.calls}`, "unfinished 2", "the run that was killed");
  const { status, stdout, stderr } = setup.run("runs", "show", run.id, "--config", there.config);
  equal(status, 0, `exit code (${stderr})`);
  assert(/unfinished/.test(stdout) && /long-running/.test(stdout), stdout);
  const replay = setup.run("replay", run.id, "--json", "--config", there.config);
  equal(`${replay.status} ${JSON.parse(replay.stdout).verdict}`, "0 identical", "replay of what there is");
}
