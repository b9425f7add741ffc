// The official conformance suites against the Go SDK's conformance server, and against
// one with tasks, directly and through the binary: every check must have the same status.

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { freePort } from "./listening.js";
import { assert, none } from "./report.js";
import { acrossHandshake, acrossStateless, ownTasks } from "./explained.js";
import { differences, failures, next, run, table } from "./suite.js";

// suites: 0.1.16 is the release; the pre-release adds checks, among them of the
// schema of every message and of the lifecycle of a session. The server serves
// sessions or, stateless, 2026-07-28; over stdio it serves both. It has no tasks: they
// fail, as does what is in fails. Of the results of a suite, only those in only count.
const suites = [
  { title: "conformance 0.1.16", module: "@modelcontextprotocol/conformance", server: "sessions", args: ["--suite", "all"] },
  { title: `${next.name}, what 2025-11-25 requires`, module: next.module, server: "sessions", args: ["--requirements", "2025-11-25"], across: acrossHandshake },
  { title: `${next.name}, revision 2025-06-18`, module: next.module, server: "sessions", args: ["--suite", "all", "--spec-version", "2025-06-18"] },
  { title: `${next.name}, what 2026-07-28 requires`, module: next.module, server: "stateless", args: ["--requirements", "2026-07-28"], fails: /^tasks-/, explained: ownTasks, across: acrossStateless },
  { title: `${next.name}, tasks`, module: next.module, server: "tasks", args: ["--suite", "pending"], only: /^tasks-/, waits: true },
];

// own are the eras in which a server over stdio is spoken to. other is the era that
// the suite does not speak, for a suite that is run across them.
const own = { sessions: "legacy", stateless: "2026-07-28", tasks: "auto" };
const other = { sessions: "2026-07-28", stateless: "legacy" };

// conformance runs all suites against the server directly, behind stdio and behind HTTP.
export async function conformance({ setup, report }) {
  const servers = {};
  for (const kind of ["sessions", "stateless", "tasks"]) {
    await report.check(`the binary serves the conformance server (${kind}) over HTTP, behind stdio and behind HTTP`, async () => {
      servers[kind] = { direct: await direct(setup, kind), stdio: await behindStdio(setup, kind, own[kind]), HTTP: await behindHTTP(setup, kind) };
      if (other[kind]) servers[kind].across = await behindStdio(setup, kind, other[kind]);
    });
  }
  for (const suite of suites) await compare({ setup, report }, suite, servers[suite.server]);
  for (const { processes } of Object.values(servers).flatMap((places) => Object.values(places))) {
    for (const process of processes) await process.stop();
  }
}

// compare runs a suite at all places. The server itself must pass what is not in
// suite.fails.
async function compare({ setup, report }, suite, places) {
  const found = {};
  // What only waits most of the time is run at all places at once.
  const early = suite.waits ? Object.fromEntries(Object.keys(places ?? {}).map((place) => [place, at(place)])) : {};
  for (const result of Object.values(early)) result.catch(() => {}); // seen when it is awaited
  async function at(place) {
    const { found } = await run(setup, suite.module, `${place}-${suite.title}`, ["server", "--url", places[place].url, ...suite.args]);
    return new Map([...found].filter(([name]) => !suite.only || suite.only.test(name)));
  }
  await report.check(`${suite.title}: the server by itself`, async () => {
    found.direct = await (early.direct ?? at("direct"));
    none("failed", failures(found.direct).filter((failure) => !suite.fails?.test(failure)));
    return `${found.direct.size} checks`;
  });
  for (const place of ["stdio", "HTTP"]) {
    await report.check(`${suite.title}: the same behind ${place}`, async () => {
      assert(places && found.direct, "there is nothing to compare");
      found[place] = await (early[place] ?? at(place));
      none("checks that differ", differences(found.direct, found[place], suite.explained));
      return `${found[place].size} checks`;
    });
  }
  if (suite.across) {
    await report.check(`${suite.title}: a server of the other era, with explained differences`, async () => {
      assert(places?.across && found.direct, "there is nothing to compare");
      found.across = await at("across");
      none("checks that differ", differences(found.direct, found.across, suite.across.explained));
      return `${found.across.size} checks, ${Object.keys(suite.across.explained).length} explained`;
    });
  }
  table(report, suite.title, [["direct", found.direct], ["behind stdio", found.stdio], ["behind HTTP", found.HTTP], ...(suite.across ? [["the other era behind", found.across]] : [])]);
}

// unresumable runs the binary without storing events, so that streams of requests
// cannot be resumed. With the default, checks of priming and retry events would
// succeed for which the server alone gets a warning.
const unresumable = { resume_window: "0s" };

const tasks = fileURLToPath(new URL("servers/tasks.js", import.meta.url));

// command gives the command of a kind of server; over HTTP if there is a port.
function command(setup, kind, port) {
  if (kind === "tasks") return [process.execPath, port ? [tasks, `${port}`] : [tasks]];
  const server = join(setup.modules, "..", "bin", "everything-server");
  return [server, port ? [`-stateless=${kind === "stateless"}`, "-http", `127.0.0.1:${port}`] : []];
}

// direct, behindStdio and behindHTTP give {url, processes}; processes end in that order.
async function direct(setup, kind) {
  const port = await freePort();
  const process = await setup.listen(port, ...command(setup, kind, port), "conformance").ready();
  return { url: `http://127.0.0.1:${port}/mcp`, processes: [process] };
}

// behindStdio: protocol is the value of the key for the server.
async function behindStdio(setup, kind, protocol) {
  const [server, args] = command(setup, kind);
  const config = setup.configure(`conformance-${kind}-${protocol}`, { server: { command: server, args, prefix: "", protocol } }, "25s", unresumable);
  const process = await setup.front(config);
  return { url: process.url, processes: [process] };
}

async function behindHTTP(setup, kind) {
  const server = await direct(setup, kind);
  const process = await setup.front(setup.configure(`conformance-${kind}-http`, { server: { url: server.url, prefix: "" } }, "25s", unresumable));
  return { url: process.url, processes: [process, ...server.processes] };
}
