// The client scenarios of the official conformance suite, with the binary between the
// suite's server and a host of each era.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { equal, none } from "./report.js";
import { failures, next, run, table } from "./suite.js";

const driver = (name) => fileURLToPath(new URL(name, import.meta.url));
const hosts = ["legacy", "modern"];
const isAuth = (scenario) => scenario.startsWith("auth/");

// A login does not depend on the host, so its scenarios run with the host of the
// revision's own era. The set of 2025-11-25 leaves out two for servers of 2025-03-26.
const loginHosts = { "2025-03-26": "legacy", "2025-11-25": "legacy", "2026-07-28": "modern" };
const oldLogins = ["auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback"];
const atOnce = 3; // scenarios that run at the same time
const patience = "90000"; // ms for a scenario: slow machines are no failures

export async function clientScenarios({ setup, report }) {
  for (const revision of Object.keys(loginHosts)) {
    const found = Object.fromEntries(hosts.map((era) => [era, new Map()]));
    const all = wanted(setup, revision).flatMap((scenario) => (isAuth(scenario) ? [loginHosts[revision]] : hosts).map((era) => ({ scenario, era })));
    const checks = all.map(({ scenario, era }) => () => report.check(`${revision}, ${scenario}: a ${era} host passes through the binary`, async () => {
      const result = await one(setup, revision, scenario, era);
      for (const [name, check] of result.found) found[era].set(name, check);
      none("failed", failures(result.found));
      equal(result.code, 0, `exit code (${result.output.slice(-800)})`); // it is 1 if there are warnings, or the host failed
      return `${result.found.size} checks`;
    }));
    await Promise.all(Array.from({ length: atOnce }, async () => {
      for (let check; (check = checks.shift()); ) await check();
    }));
    table(report, `${next.name}, clients, ${revision}`, hosts.map((era) => [`${era} host`, found[era]]));
  }
}

// one runs one scenario.
function one(setup, revision, scenario, era) {
  const command = `${process.execPath} ${driver(isAuth(scenario) ? "authscenario.js" : "clientscenario.js")} ${setup.binary} ${era}`;
  const args = ["--command", command, "--scenario", scenario, "--spec-version", revision, "--timeout", patience];
  return run(setup, next.module, `client-${era}-${revision}-${scenario}`, ["client", ...args]);
}

// wanted lists the client scenarios of a requirement set, and those that it runs without
// counting them. Of the latter, those of authorization need extensions that the binary
// does not have: it acts for a person who logs in.
function wanted(setup, revision) {
  if (revision === "2025-03-26") return oldLogins;
  const lines = readFileSync(join(setup.modules, next.module, "requirements", `${revision}.yaml`), "utf8").split("\n");
  const from = lines.indexOf("client:") + 1;
  const to = lines.findIndex((line, i) => i >= from && !/^ {2}- /.test(line));
  const counted = lines.slice(from, to).map((line) => line.slice(4));
  const others = lines.filter((line, i) => lines[i + 1] === "    leg: client").map((line) => line.replace(/^ {2}- scenario: /, ""));
  return [...counted, ...others.filter((scenario) => !isAuth(scenario))];
}
