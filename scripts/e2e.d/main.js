// Drives BINARY as a client would, with the pinned npm servers behind it:
//
//	node main.js BINARY NODE_MODULES
//
//	lists.js      start, tool lists
//	calls.js      proxied calls
//	composite.js  saved tools
//	cancel.js     cancelled calls
//	sdkclient.js  the TypeScript client, and the commands for the shell
//	faults.js     killed and broken upstreams
//	ending.js     end of input, SIGTERM, orphans, purity of output
//	setup.js      configurations and clients for all of them
//	rawclient.js, rawjson.js, processes.js, report.js  what they are made of

import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { cancel } from "./cancel.js";
import { calls } from "./calls.js";
import { composites } from "./composite.js";
import { ending, outputs } from "./ending.js";
import { brokenUpstreams, killedUpstream } from "./faults.js";
import { lists } from "./lists.js";
import { Report } from "./report.js";
import { commands, sdkClient } from "./sdkclient.js";
import { Setup } from "./setup.js";

if (process.platform !== "linux" || process.argv.length !== 4) {
  console.error("usage: node main.js BINARY NODE_MODULES (on Linux: processes are looked up in /proc)");
  process.exit(2);
}

const [binary, modules] = process.argv.slice(2).map((path) => resolve(path));
const setup = new Setup(binary, modules);
const report = new Report();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    setup.clean();
    process.exit(130);
  });
}

async function suites() {
  const main = setup.serve(setup.configure("main", setup.upstreams("main")));
  const direct = Object.fromEntries(
    ["everything", "filesystem", "memory"].map((name) => [name, setup.direct(name, name === "filesystem" ? [setup.files] : [])]),
  );
  const context = { setup, report, main, direct };
  report.section("Start and tool lists");
  await lists(context);
  report.section("Proxied calls");
  await calls(context);
  report.section("Composite tools");
  await composites(context);
  report.section("Cancellation");
  await cancel(context);
  report.section("A killed upstream");
  await killedUpstream(context);
  await Promise.all(Object.values(direct).map((client) => client.close()));
  report.section("The TypeScript client");
  await sdkClient(context, pathToFileURL(modules));
  report.section("Commands");
  await commands(context);
  report.section("Broken upstreams");
  const broken = await brokenUpstreams(context);
  report.section("The end");
  await ending(context, broken);
  await outputs(context);
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
