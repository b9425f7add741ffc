// The official conformance suites: how they are run, and what they found.

import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { assert } from "./report.js";

// next is the pre-release, which knows both eras of the protocol.
export const next = { name: "0.2.0-alpha.12", module: "conformance-next" };

// run runs a suite with arguments for its command "server" or "client". It returns
// {found, code, output}. found has the status of each check: it is a Map from
// "scenario: check" to {status, why}, where status is "SUCCESS", "FAILURE", "WARNING",
// "INFO" or "SKIPPED". code is the suite's exit code.
export async function run(setup, module, name, [command, ...args]) {
  const results = join(setup.dir, "conformance", name.replace(/\W+/g, "-"));
  mkdirSync(results, { recursive: true });
  const { code, output } = await node22(setup, [join(setup.modules, module, "dist", "index.js"), command, "--output-dir", results, ...args]);
  const found = read(results);
  assert(found.size > 0, `no results: ${output.slice(-800)}`);
  return { found, code, output };
}

// read reads what a suite has left in a directory.
export function read(results) {
  const found = new Map();
  for (const dir of directories(results)) {
    const scenario = dir.replace(/^server-/, "").replace(/-\d{4}-\d\d-\d\dT.*$/, "");
    for (const check of checks(join(results, dir))) {
      if (isLog(check)) continue;
      const key = `${scenario}: ${check.id}`;
      let name = key;
      for (let n = 2; found.has(name); n++) name = `${key} (${n})`;
      found.set(name, { status: check.status, why: check.errorMessage });
    }
  }
  return found;
}

// directories lists those of the scenarios; names of scenarios have slashes.
function directories(results) {
  return readdirSync(results, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isDirectory() && /-\d{4}-\d\d-\d\dT/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name).slice(results.length + 1))
    .sort();
}

function checks(dir) {
  try {
    return JSON.parse(readFileSync(join(dir, "checks.json"), "utf8"));
  } catch (err) {
    if (err.code !== "ENOENT") throw err;
    return [{ id: "the scenario ends", status: "FAILURE", errorMessage: "it broke off" }];
  }
}

// isLog reports whether an entry is a note of the suite about its own traffic, one
// for each message, and not a check.
const isLog = (check) => check.status === "INFO" && !check.specReferences;

// node22 runs a script with the pinned Node 22, which keeps its compiled modules: the
// suite is started for each of its scenarios for clients.
function node22(setup, args) {
  const command = join(setup.modules, `node-linux-${process.arch}`, "bin", "node");
  return new Promise((resolve, reject) => {
    let output = "";
    const child = spawn(command, args, { env: { ...setup.env, NODE_COMPILE_CACHE: join(setup.dir, "node-cache") }, cwd: setup.dir, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (chunk) => (output += chunk));
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, output }));
  });
}

export const failures = (found) =>
  [...found].filter(([, c]) => c.status === "FAILURE").map(([name, c]) => `${name}: ${c.why}`);

// differences lists the checks with different status, and the ones that are only in
// one of the two. explained has the differences that must be there: names of checks
// and the reason.
export function differences(want, got, explained = {}) {
  const status = (found, name) => found.get(name)?.status ?? "not there";
  const differs = (name) => status(want, name) !== status(got, name);
  const unexpected = [...new Set([...want.keys(), ...got.keys()])]
    .filter((name) => differs(name) && !(name in explained))
    .map((name) => {
      const why = got.get(name)?.why;
      return `${name}: ${status(got, name)}, direct ${status(want, name)}${why ? ` (${why.slice(0, 300)})` : ""}`;
    });
  const outdated = Object.keys(explained).filter((name) => !differs(name)).map((name) => `${name}: is explained, but does not differ`);
  return [...unexpected, ...outdated];
}

// table prints the outcome of each scenario at each place. columns has pairs of a
// title and the results.
export function table(report, title, columns) {
  const scenarios = new Set(columns.flatMap(([, found]) => [...(found?.keys() ?? [])]).map((name) => name.split(": ")[0]));
  const rows = [...scenarios, ""].map((scenario) => [scenario || "all", ...columns.map(([, found]) => verdict(found, scenario))]);
  report.table([title, ...columns.map(([head]) => head)], rows);
}

// verdict counts the checks of a scenario, or of all.
function verdict(found, scenario) {
  const counts = {};
  for (const [name, { status }] of found ?? []) {
    if (!scenario || name.startsWith(scenario + ": ")) counts[status] = (counts[status] ?? 0) + 1;
  }
  return Object.entries(counts).map(([status, n]) => `${n} ${status}`).join(", ") || "-";
}
