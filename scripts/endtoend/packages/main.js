// Checks the packages that scripts/releasebuild/wrappers has made. See scripts/packages.
//
//	node main.js DIST NODE_MODULES TOOL_MODULES SCHEMAS PACKAGES EARLIER
//
//	npm.js        installs the npm packages and starts them
//	upgrade.js    runs the npm commands of docs/upgrade.md
//	bundle.js     the MCPB bundle of this platform
//	server.js     server.json
//	registry.js   an npm registry on this machine
//	place.js      a home directory, a configuration, and what is started there

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { Report } from "../report.js";
import { bundles } from "./bundle.js";
import { npm } from "./npm.js";
import { Place } from "./place.js";
import { Registry } from "./registry.js";
import { serverDocument } from "./server.js";
import { upgrade } from "./upgrade.js";

const [dist, modules, tool, schemas, packages, earlier] = process.argv.slice(2).map((path) => resolve(path));
// Checks ends what a failed check has left running: the others wait for all processes to end.
class Checks extends Report {
  async check(name, body) {
    const passed = await super.check(name, body);
    if (!passed) place.end();
    return passed;
  }
}
const report = new Checks();
const registry = await Registry.of(earlier, packages);
const place = new Place({ dist, modules, packages, registry, version: JSON.parse(readFileSync(`${packages}/server.json`)).version });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    place.clean();
    process.exit(130);
  });
}
try {
  for (const [title, section] of [["npm", npm], ["Upgrade", upgrade], ["MCPB", bundles], ["server.json", serverDocument]]) {
    report.section(title);
    try {
      await section({ report, place, tool, schemas });
    } catch (err) {
      report.failed++;
      console.log(`  FAIL  could not go on with "${title}": ${err.stack}`);
    }
  }
} finally {
  place.clean();
  await registry.close();
}
process.exit(report.summary() ? 0 : 1);
