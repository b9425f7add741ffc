// Where packages are tried: a home directory with a configuration of ours, and npm with the
// registry on this machine. Nothing there is shared with the user who runs the checks.

import { spawn } from "node:child_process";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { listed, marked } from "../processes.js";
import { RawClient } from "../rawclient.js";
import { assert, equal, until, within } from "../report.js";
import { Setup } from "../setup.js";

const limit = 60_000; // ms, for what a loaded machine may delay

export class Place {
  #setup;

  constructor({ dist, modules, packages, registry, version }) {
    const platform = `${{ linux: "linux" }[process.platform]}_${{ x64: "amd64", arm64: "arm64" }[process.arch]}`;
    const folder = readdirSync(dist).find((name) => name.startsWith(`mcp-metatool_${platform}`));
    this.binary = join(dist, folder, "mcp-metatool");
    this.node = `${process.platform}-${process.arch}`; // the platform, as Node calls it
    this.packages = packages;
    this.version = version;
    this.registry = registry;
    this.modules = modules;
    this.#setup = new Setup(this.binary, modules);
    this.dir = this.#setup.dir;
    // Node 20, which starts the program as a child, and Node 22, which it takes the place of.
    this.nodes = [dirname(process.execPath), join(modules, `node-linux-${process.arch}`, "bin")];
    this.home = join(this.dir, "home");
    mkdirSync(join(this.home, ".mcp-metatool"), { recursive: true });
    writeFileSync(join(this.home, ".npmrc"), `registry=${registry.url}\naudit=false\nfund=false\nupdate-notifier=false\n`);
    this.config = join(this.home, ".mcp-metatool", "config.toml");
    writeFileSync(this.config, `[upstream.harbour]\ncommand = ${JSON.stringify(this.binary)}\nargs = ["demo-upstream", "harbour"]\n`);
  }

  // env returns the environment with the Node in a folder first.
  env(bin = this.nodes[0], more = {}) {
    return { ...this.#setup.env, HOME: this.home, PATH: `${bin}:${process.env.PATH}`, ...more };
  }

  // run runs a command to its end, and returns {code, signal, stdout, stderr}.
  run(command, args, { cwd = this.dir, env = this.env(), input } = {}) {
    const child = spawn(command, args, { cwd, env, stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"] });
    child.stdin?.end(input);
    const texts = ["stdout", "stderr"].map(async (name) => {
      let text = "";
      for await (const chunk of child[name].setEncoding("utf8")) text += chunk;
      return text;
    });
    const end = new Promise((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (code, signal) => resolve([code, signal]));
    });
    return within(2 * limit, `${command} ${args.join(" ")}`, Promise.all([end, ...texts]).then(
      ([[code, signal], stdout, stderr]) => ({ code, signal, stdout, stderr })));
  }

  // succeed runs a command that must end with exit code 0, and returns its output.
  async succeed(command, args, options) {
    const { code, signal, stdout, stderr } = await this.run(command, args, options);
    assert(code === 0, `${command} ${args.join(" ")}: ${signal ?? code}: ${(stderr + stdout).slice(-2000)}`);
    return stdout;
  }

  // open starts an MCP server, and returns the client after the handshake with the tools.
  async open(command, args, { env = this.env(), cwd = this.dir } = {}) {
    const client = new RawClient(command, args, { env, cwd });
    const { value } = await client.initialize();
    equal(value.result?.serverInfo.name, "mcp-metatool", "the name of the server");
    client.tools = (await client.definitions()).map((tool) => tool.name);
    assert(client.tools.includes("save_tool"), `the tools are ${client.tools}`);
    return client;
  }

  // programs lists the running processes of the program itself in the place of serve.
  programs(word = "serve") {
    return marked(this.#setup.mark).filter((p) => new RegExp(`^\\S*/mcp-metatool ${word}`).test(p.command));
  }

  // gone waits until no process of this place is left.
  async gone() {
    const left = () => marked(this.#setup.mark);
    await until(limit, "every process has ended", () => left().length === 0).catch((err) => {
      throw new Error(`${err.message}: ${listed(left())}`);
    });
  }

  // end kills the processes that are left.
  end() {
    this.#setup.endAll();
  }

  clean() {
    this.#setup.clean();
  }
}
