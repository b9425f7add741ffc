// Tests BINARY as a client, with the pinned npm servers behind it:
//
//	node main.js BINARY NODE_MODULES [PATTERN]
//
// PATTERN selects sections by a regular expression; those that share one server run
// only without it.
//
//	lists.js      start, tool lists
//	calls.js      proxied calls
//	composite.js  saved tools
//	cancel.js     cancelled calls
//	sdkclient.js  the TypeScript client (sdksurfaces.js: other than tools), and the commands
//	sdk2client.js the TypeScript client of SDK 2 in both eras
//	eras.js       servers of three SDKs in both eras (servers/, which has others for conformance.js)
//	odd.js        clients of the TypeScript SDKs, next to a server with items that they refuse (listjudge/)
//	tasks.js      tasks of both eras
//	hosts.js      hosts that need no login (hosts/)
//	http.js       the HTTP front end: sessions, refusals, broken connections
//	fidelity.js   each combination of transports, compared with the server itself (items.js, combinations.js)
//	conformance.js  the official suites, directly and through the binary (suite.js: how they run; explained.js: which results differ, and why)
//	clients.js    the client scenarios of the suite, with the binary as the client (clientscenario.js, authscenario.js: what it starts)
//	journal.js    records of runs, and replays (browser.js: their page)
//	smoke.js      files of checks (formats.js: their reports), export and import of tools
//	confined.js   confined servers (servers/plain.py is one of them)
//	faults.js     killed and broken upstreams
//	ending.js     end of input, SIGTERM, orphans, what is on stdout
//	setup.js      configurations and clients for all suites
//	client.js, host.js, rawclient.js, httpclient.js, rawjson.js, recorder.js, tap.js, listening.js, processes.js, report.js
//	              their parts

import { rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { cancel } from "./cancel.js";
import { calls } from "./calls.js";
import { composites } from "./composite.js";
import { clientScenarios } from "./clients.js";
import { ending, outputs } from "./ending.js";
import { confined } from "./confined.js";
import { conformance } from "./conformance.js";
import { brokenUpstreams, killedUpstream } from "./faults.js";
import { eras } from "./eras.js";
import { fidelity } from "./fidelity.js";
import { hosts } from "./hosts.js";
import { http } from "./http.js";
import { HttpClient } from "./httpclient.js";
import { journal } from "./journal.js";
import { lists } from "./lists.js";
import { odd } from "./odd.js";
import { Report, equal } from "./report.js";
import { sdk2Client } from "./sdk2client.js";
import { commands, sdkClient } from "./sdkclient.js";
import { Setup } from "./setup.js";
import { smoke } from "./smoke.js";
import { tasks } from "./tasks.js";

if (process.platform !== "linux" || process.argv.length < 4) {
  console.error("usage: node main.js BINARY NODE_MODULES [PATTERN] (on Linux: processes are looked up in /proc)");
  process.exit(2);
}

const [binary, modules] = process.argv.slice(2, 4).map((path) => resolve(path));
const selected = new RegExp(process.argv[4] ?? "", "i");
const setup = new Setup(binary, modules);
const report = new Report();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    setup.clean();
    process.exit(130);
  });
}

async function suites() {
  const context = { setup, report };
  if (process.argv[4]) return independent(context);
  Object.assign(context, shared());
  report.section("Start and tool lists");
  await lists(context);
  for (const [title, suite] of repeated) {
    report.section(title);
    await suite(context);
  }
  await alone("Over HTTP", () => overHTTP(context));
  report.section("A killed upstream");
  await killedUpstream(context);
  await Promise.all(Object.values(context.direct).map((client) => client.close()));
  await independent(context);
  report.section("Commands");
  await commands(context);
  report.section("Broken upstreams");
  const broken = await brokenUpstreams(context);
  report.section("The end");
  await ending(context, broken);
  await outputs(context);
}

// shared starts the client of the sections that share one server, and clients of the
// servers behind it.
function shared() {
  const upstreams = setup.upstreams("main");
  upstreams.filesystem.restart = "never"; // it will be killed
  const main = setup.serve(setup.configure("main", upstreams));
  const direct = Object.fromEntries(
    ["everything", "filesystem", "memory"].map((name) => [name, setup.direct(name, name === "filesystem" ? [setup.files] : [])]),
  );
  return { main, direct, tapped: () => setup.tapped("main") };
}

// independent runs the sections that need nothing of others.
async function independent(context) {
  for (const over of ["stdio", "HTTP"]) {
    await alone(`The TypeScript client over ${over}`, () => sdkClient(context, pathToFileURL(modules), over));
  }
  await alone("The TypeScript client of SDK 2", () => sdk2Client(context));
  await alone("Servers of both eras", () => eras(context));
  await alone("Odd items", () => odd(context));
  await alone("Tasks of both eras", () => tasks(context));
  await alone("Hosts", () => hosts(context));
  await alone("The HTTP front", () => http(context));
  await alone("Combinations of transports", () => fidelity(context));
  await alone("Conformance", () => conformance(context));
  await alone("Client scenarios of the suite", () => clientScenarios(context));
  await alone("The journal", () => journal(context));
  await alone("Smoke tests", () => smoke(context));
  await alone("Confined servers", () => confined(context));
}

// alone runs a section that later sections do not depend on.
async function alone(title, suite) {
  if (!selected.test(title)) return;
  report.section(title);
  try {
    await suite();
  } catch (err) {
    report.failed++;
    console.log(`  FAIL  could not go on with "${title}": ${err.stack}`);
  }
}

// repeated are the suites that run over each transport.
const repeated = [["Proxied calls", calls], ["Composite tools", composites], ["Cancellation", cancel]];

// overHTTP repeats the suites of the stdio client over HTTP.
async function overHTTP(context) {
  const front = await setup.front(setup.configure("overhttp", setup.upstreams("overhttp")));
  const client = new HttpClient(front.url, front);
  await client.initialize();
  rmSync(join(setup.files, "joined.txt")); // as it was at the start
  const there = { ...context, main: client, tapped: () => setup.tapped("overhttp") };
  for (const [title, suite] of repeated) {
    report.section(`${title} over HTTP`);
    await suite(there);
  }
  await report.check("only messages came, and no stream broke", async () => {
    equal(client.noise.concat(client.problems).join("; "), "", "problems");
    equal(await client.close(), 204, "status of DELETE");
    equal((await front.stop()).code, 0, "exit code");
  });
}

try {
  await suites();
} catch (err) {
  report.failed++;
  console.log(`  FAIL  could not go on: ${err.stack}`);
} finally {
  setup.clean();
}
process.exit(report.summary() ? 0 : 1);
