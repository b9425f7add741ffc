// The official conformance suites against the Go SDK's conformance server, directly
// and through the binary: every check must have the same status.

import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "./listening.js";
import { assert, none } from "./report.js";

// suites: 0.1.16 is the release; the pre-release adds checks, among them of the
// schema of every message and of the lifecycle of a session.
const suites = [
  { title: "conformance 0.1.16", module: "@modelcontextprotocol/conformance", args: ["--suite", "all"] },
  { title: "0.2.0-alpha.12, what 2025-11-25 requires", module: "conformance-next", args: ["--requirements", "2025-11-25"] },
  { title: "0.2.0-alpha.12, revision 2025-06-18", module: "conformance-next", args: ["--suite", "all", "--spec-version", "2025-06-18"] },
];

// conformance runs all suites against the server directly, behind stdio and behind HTTP.
export async function conformance({ setup, report }) {
  const places = { direct: await direct(setup) };
  await report.check("the binary serves the conformance server over HTTP, behind stdio and behind HTTP", async () => {
    Object.assign(places, { stdio: await behindStdio(setup), HTTP: await behindHTTP(setup) });
  });
  for (const suite of suites) {
    const found = {};
    await report.check(`${suite.title}: the server by itself`, async () => {
      found.direct = await run(setup, suite, "direct", places.direct);
      none("failed", failures(found.direct));
      return `${found.direct.size} checks`;
    });
    for (const place of ["stdio", "HTTP"]) {
      await report.check(`${suite.title}: the same behind ${place}`, async () => {
        assert(places[place] && found.direct, "there is nothing to compare");
        found[place] = await run(setup, suite, place, places[place]);
        none("checks that differ", differences(found.direct, found[place]));
        return `${found[place].size} checks`;
      });
    }
    table(report, suite, found);
  }
  for (const { processes } of Object.values(places)) for (const process of processes) await process.stop();
}

// unresumable runs the binary without storing events, so that streams of requests
// cannot be resumed. With the default, checks of priming and retry events would
// succeed for which the server alone gets a warning.
const unresumable = { resume_window: "0s" };

const serverOf = (setup) => join(setup.modules, "..", "bin", "everything-server");

// direct, behindStdio and behindHTTP give {url, processes}; processes end in that order.
async function direct(setup) {
  const port = await freePort();
  const args = ["-stateless=false", "-http", `127.0.0.1:${port}`];
  const process = await setup.listen(port, serverOf(setup), args, "conformance").ready();
  return { url: `http://127.0.0.1:${port}/mcp`, processes: [process] };
}

async function behindStdio(setup) {
  const process = await setup.front(setup.configure("conformance-stdio", { server: { command: serverOf(setup), args: [], prefix: "" } }, "15s", unresumable));
  return { url: process.url, processes: [process] };
}

async function behindHTTP(setup) {
  const server = await direct(setup);
  const process = await setup.front(setup.configure("conformance-http", { server: { url: server.url, prefix: "" } }, "15s", unresumable));
  return { url: process.url, processes: [process, ...server.processes] };
}

// run returns the status of each check: a Map from "scenario: check" to "SUCCESS",
// "FAILURE", "WARNING", "INFO" or "SKIPPED".
async function run(setup, { module, args, title }, place, { url }) {
  const results = join(setup.dir, "conformance", place, title.replace(/\W+/g, "-"));
  mkdirSync(results, { recursive: true });
  const command = ["server", "--url", url, "--output-dir", results, ...args];
  const output = await node22(setup, [join(setup.modules, module, "dist", "index.js"), ...command]);
  const found = new Map();
  for (const dir of readdirSync(results).sort()) {
    const scenario = dir.replace(/^server-/, "").replace(/-\d{4}-\d\d-\d\dT.*$/, "");
    for (const check of JSON.parse(readFileSync(join(results, dir, "checks.json"), "utf8"))) {
      if (isLog(check)) continue;
      const key = `${scenario}: ${check.id}`;
      let name = key;
      for (let n = 2; found.has(name); n++) name = `${key} (${n})`;
      found.set(name, { status: check.status, why: check.errorMessage });
    }
  }
  assert(found.size > 0, `no results: ${output.slice(-800)}`);
  return found;
}

// isLog reports whether an entry is a note of the suite about its own traffic, one
// for each message, and not a check.
const isLog = (check) => check.status === "INFO" && !check.specReferences;

// node22 runs a script with the pinned Node 22 and returns its output. The suite's
// exit code says only whether there was a failure.
function node22(setup, args) {
  const command = join(setup.modules, `node-linux-${process.arch}`, "bin", "node");
  return new Promise((resolve, reject) => {
    let output = "";
    const child = spawn(command, args, { env: setup.env, cwd: setup.dir, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (chunk) => (output += chunk));
    child.on("error", reject);
    child.on("close", () => resolve(output));
  });
}

const failures = (found) =>
  [...found].filter(([, c]) => c.status === "FAILURE").map(([name, c]) => `${name}: ${c.why}`);

// differences lists the checks with different status, and the ones that are only in
// one of the two.
export function differences(want, got) {
  const status = (found, name) => found.get(name)?.status ?? "not there";
  return [...new Set([...want.keys(), ...got.keys()])]
    .filter((name) => status(want, name) !== status(got, name))
    .map((name) => {
      const why = got.get(name)?.why;
      return `${name}: ${status(got, name)}, direct ${status(want, name)}${why ? ` (${why.slice(0, 300)})` : ""}`;
    });
}

// table prints the outcome of each scenario at each place.
function table(report, { title }, found) {
  const places = ["direct", "stdio", "HTTP"];
  const scenarios = new Set(places.flatMap((p) => [...(found[p]?.keys() ?? [])]).map((name) => name.split(": ")[0]));
  const rows = [...scenarios].map((scenario) => [scenario, ...places.map((p) => verdict(found[p], scenario))]);
  report.table([title, "direct", "behind stdio", "behind HTTP"], rows);
}

function verdict(found, scenario) {
  const counts = {};
  for (const [name, { status }] of found ?? []) {
    if (name.startsWith(scenario + ": ")) counts[status] = (counts[status] ?? 0) + 1;
  }
  return Object.entries(counts).map(([status, n]) => `${n} ${status}`).join(", ") || "-";
}
