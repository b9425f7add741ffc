// The npm packages: what is in them, what npm installs, and how the program behaves when it
// is started through them.

import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { assert, equal, none, until, within } from "../report.js";
import { contents, tarballs } from "./registry.js";

const limit = 60_000; // ms

export async function npm({ report, place }) {
  const prefix = join(place.dir, "prefix");
  await report.check("tarballs have the program, licences, and no scripts", () => packed(place));
  const installed = await report.check("npm install of the tarball: the launcher and one program", () => install(place, prefix));
  if (!installed) return;
  for (const bin of place.nodes) {
    const version = (await place.succeed(join(bin, "node"), ["--version"])).trim();
    const start = { env: place.env(bin), cwd: prefix };
    const npx = ["--no-install", "mcp-metatool"];
    const check = (name, body) => report.check(`${version}: ${name}`, body);
    await check("npx runs the program", async () => {
      equal(await place.succeed("npx", [...npx, "version"], start), await place.succeed(place.binary, ["version"]), "version");
    });
    await check("npx passes exit codes", () => exitCodes(place, npx, start));
    await check("npx serves MCP, and ends with its input", async () => {
      const client = await place.open("npx", npx, start);
      assert(client.tools.includes("harbour__list_ships"), `the tools are ${client.tools}`);
      const { code } = await client.close();
      equal(code, 0, "exit code");
      equal(client.noise.join("\n") + client.unfinished, "", "other output");
      await place.gone();
      return `${Math.round(client.initializeTime)} ms to the answer to initialize`;
    });
    for (const signal of ["SIGINT", "SIGTERM"]) {
      await check(`${signal} to the launcher ends the server in order`, () => ended(place, launcher(prefix, bin), start, signal));
    }
    await check("SIGHUP to the launcher makes the server read its configuration again", async () => {
      const client = await place.open(...launcher(prefix, bin), start);
      client.child.kill("SIGHUP");
      await until(limit, "the configuration is read again", () => client.stderr.includes("why=SIGHUP"));
      equal((await client.close()).code, 0, "exit code");
      await place.gone();
    });
    await check("SIGTERM to npx, which passes it to nobody, and the end of input leave no process", async () => {
      const client = await place.open("npx", npx, start);
      client.child.kill("SIGTERM");
      client.child.stdin.end();
      await within(limit, "exit of npx", client.exited);
      await place.gone();
    });
    await check("the launcher ends by the signal that ended the program", () => killed(place, launcher(prefix, bin), start));
    await check("a killed launcher leaves no process", async () => {
      const client = await place.open(...launcher(prefix, bin), start);
      client.child.kill("SIGKILL");
      await client.exited;
      client.child.stdin.end();
      await place.gone();
    });
  }
  await report.check("npx -y installs and starts the newest version", async () => {
    const client = await place.open("npx", ["-y", "mcp-metatool"], { cwd: place.home });
    equal((await client.close()).code, 0, "exit code");
    await place.gone();
    assert(place.registry.requests.includes(`/-/mcp-metatool-${place.node}-${place.version}.tgz`), `requested: ${place.registry.requests}`);
  });
  await report.check("an installation without the program says how to get it", () => incomplete(place));
  await report.check("npm uninstall leaves nothing", async () => {
    await place.succeed("npm", ["uninstall", "--prefix", prefix, "mcp-metatool"]);
    const left = readdirSync(join(prefix, "node_modules"), { recursive: true, withFileTypes: true });
    none("left over", left.filter((entry) => !entry.isDirectory()).map((entry) => entry.name).filter((name) => name !== ".package-lock.json"));
  });
}

// launcher returns the command that npx runs.
const launcher = (prefix, bin) => [join(bin, "node"), [join(prefix, "node_modules", "mcp-metatool", "bin", "mcp-metatool.js"), "serve"]];

function packed(place) {
  const sizes = [];
  for (const name of tarballs(place.packages)) {
    const files = contents(join(place.packages, name));
    const program = name.includes("win32") ? "bin/mcp-metatool.exe" : "bin/mcp-metatool";
    const want = name === `mcp-metatool-${place.version}.tgz`
      ? ["-rw-r--r-- LICENSE", "-rw-r--r-- README.md", "-rw-r--r-- package.json", "-rwxr-xr-x bin/mcp-metatool.js"]
      : ["-rw-r--r-- LICENSE", "-rw-r--r-- README.md", "-rw-r--r-- THIRD_PARTY_NOTICES", "-rw-r--r-- package.json", `-rwxr-xr-x ${program}`];
    equal(files.join("\n"), want.sort().join("\n"), name);
    sizes.push(`${name} ${size(join(place.packages, name))}`);
  }
  equal(sizes.length, 6, "number of packages");
  return sizes.join(", ");
}

const size = (path) => `${(statSync(path).size / 1e6).toFixed(2)} MB`;

async function install(place, prefix) {
  mkdirSync(prefix);
  writeFileSync(join(prefix, "package.json"), "{}");
  await place.succeed("npm", ["install", "--prefix", prefix, join(place.packages, `mcp-metatool-${place.version}.tgz`)]);
  const modules = join(prefix, "node_modules");
  const there = readdirSync(modules).concat(readdirSync(join(modules, "@mcp-metatool"))).filter((name) => !name.startsWith("."));
  equal(there.sort().join(" "), `@mcp-metatool ${place.node} mcp-metatool`, "packages");
  const program = join(modules, "@mcp-metatool", place.node, "bin", "mcp-metatool");
  assert(readFileSync(program).equals(readFileSync(place.binary)), "the program has other bytes");
  for (const path of [join(modules, "mcp-metatool"), join(modules, "@mcp-metatool", place.node)]) {
    const manifest = JSON.parse(readFileSync(join(path, "package.json")));
    assert(!manifest.scripts && !manifest.gypfile, `${manifest.name} has scripts`);
  }
  return `program ${size(program)}`;
}

async function exitCodes(place, npx, start) {
  const commands = [[["version"], 0], [["run", "harbour__no_such_tool"], 1], [["check", "--config", "missing.toml"], 2], [["no-such-command"], 2]];
  await Promise.all(commands.map(async ([args, want]) => {
    const { code } = await place.run("npx", [...npx, ...args], start);
    equal(code, want, args.join(" "));
  }));
}

// ended sends a signal to the launcher alone, as a host does.
async function ended(place, [command, args], start, signal) {
  const client = await place.open(command, args, start);
  equal(place.programs().length, 1, "programs that run");
  client.child.kill(signal);
  const { code, signal: by } = await within(limit, "exit of the launcher", client.exited);
  equal(`${by ?? code}`, "0", "exit");
  await place.gone();
}

// killed kills the program below the launcher, or the launcher that it has become.
async function killed(place, [command, args], start) {
  const client = await place.open(command, args, start);
  const [program] = place.programs();
  process.kill(program.pid, "SIGKILL");
  const { signal } = await within(limit, "exit of the launcher", client.exited);
  equal(signal, "SIGKILL", "signal");
  await place.gone();
  return program.pid === client.child.pid ? "the program has taken the launcher's place" : "the program is its child";
}

// incomplete starts a launcher that is alone.
async function incomplete(place) {
  const folder = join(place.dir, "incomplete");
  mkdirSync(folder);
  await place.succeed("npm", ["install", "--prefix", folder, "--omit=optional", "mcp-metatool"]);
  assert(!existsSync(join(folder, "node_modules", "@mcp-metatool")), "the program is there");
  const { code, stderr } = await place.run("npx", ["--no-install", "mcp-metatool", "version"], { cwd: folder });
  equal(code, 1, "exit code");
  assert(stderr.includes(`@mcp-metatool/${place.node}`) && stderr.includes("--omit=optional"), stderr);
  const other = join(place.dir, "launcher.cjs");
  cpSync(join(folder, "node_modules", "mcp-metatool", "bin", "mcp-metatool.js"), other);
  const foreign = await place.run("node", ["-e", `Object.defineProperty(process, "platform", { value: "sunos" }); require(${JSON.stringify(other)})`]);
  equal(foreign.code, 1, "exit code on another system");
  assert(foreign.stderr.includes("there is no program for sunos-"), foreign.stderr);
}
