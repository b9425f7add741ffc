// The environment of the checks: temporary directories, configurations, the pinned
// servers, and the clients that are connected to the binary or to a server.

import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Listening } from "./listening.js";
import { markName, marked } from "./processes.js";
import { RawClient } from "./rawclient.js";
import { member } from "./rawjson.js";

const node = process.execPath;
const recorder = fileURLToPath(new URL("recorder.js", import.meta.url));

export class Setup {
  clients = []; // all RawClients, for the checks at the end
  listeners = []; // all Listenings
  outputs = []; // stdout and stderr of every command

  constructor(binary, modules) {
    this.binary = binary;
    this.modules = modules; // node_modules of the pinned packages
    this.dir = realpathSync(mkdtempSync(join(tmpdir(), "mcp-metatool-e2e-")));
    this.mark = randomBytes(8).toString("hex");
    this.secret = "planted-" + randomBytes(12).toString("hex");
    this.files = join(this.dir, "files"); // the directory that server-filesystem may access
    mkdirSync(this.files);
    writeFileSync(join(this.files, "a.txt"), "alpha\n");
    writeFileSync(join(this.files, "b.txt"), "beta\n");
    this.env = {
      PATH: [process.env.PATH, join(node, "..")].join(delimiter),
      HOME: this.dir,
      XDG_CACHE_HOME: join(this.dir, "cache"),
      [markName]: this.mark,
      E2E_SECRET: this.secret,
    };
  }

  server(name) {
    return join(this.modules, "@modelcontextprotocol", `server-${name}`, "dist", "index.js");
  }

  // upstreams returns the servers that work. everything is the child of a process
  // that records its input; memory is started by a shell with a secret that it
  // writes to stderr.
  upstreams(name) {
    const secret = "${E2E_SECRET}";
    return {
      everything: {
        command: node,
        args: [recorder, this.tapFile(name), node, this.server("everything")],
      },
      filesystem: { command: node, args: [this.server("filesystem"), this.files] },
      memory: {
        command: "sh",
        args: ["-c", 'echo "started with $*, env $TOKEN" >&2; exec "$0" "$1"', node, this.server("memory"), "--token", secret],
        env: { TOKEN: secret, MEMORY_FILE_PATH: join(this.dir, `${name}-memory.json`) },
      },
    };
  }

  // broken returns servers that do not work: one cannot be started, one never
  // answers, one writes output that is not JSON-RPC.
  broken() {
    const secret = "${E2E_SECRET}";
    return {
      missing: { command: "mcp-metatool-e2e-no-such-command", args: ["--token", secret] },
      hanging: { command: "sleep", args: ["1000"], timeout: "6s" },
      garbage: {
        command: "sh",
        args: ["-c", 'echo "this is no JSON $0"; printf "{\\"jsonrpc\\":\\n\\377\\000\\n[]\\n"; exec sleep 1000', secret],
        timeout: "6s",
      },
    };
  }

  // stubborn is a server that ignores signals, as does the process it starts.
  stubborn() {
    const script = 'trap "" HUP INT TERM; sleep 1000 & while :; do sleep 1; done';
    return { stubborn: { command: "sh", args: ["-c", script], timeout: "60s" } };
  }

  tapFile(name) {
    return join(this.dir, `${name}-tap.jsonl`);
  }

  // tapped returns the lines that server-everything has received, as raw texts;
  // none before it has started.
  tapped(name) {
    if (!existsSync(this.tapFile(name))) return [];
    const lines = readFileSync(this.tapFile(name), "utf8").split("\n").slice(0, -1);
    return lines.map((raw) => ({ raw, value: JSON.parse(raw), params: member(raw, "params") }));
  }

  // configure writes a configuration and returns its path. Each name has its own
  // store. Each upstream has the keys of its table; http has the keys of [http].
  configure(name, upstreams, startupWait = "25s", http = {}) {
    const text = JSON.stringify;
    const lines = [`startup_wait = ${text(startupWait)}`, "[store]", `dir = ${text(join(this.dir, name))}`];
    if (Object.keys(http).length > 0) lines.push("[http]", ...Object.entries(http).map(([k, v]) => `${k} = ${text(v)}`));
    for (const [upstream, { timeout = "60s", env = {}, ...keys }] of Object.entries(upstreams)) {
      lines.push(`[upstream.${upstream}]`, ...Object.entries({ ...keys, timeout }).map(([k, v]) => `${k} = ${text(v)}`));
      if (!keys.command) continue;
      const pairs = Object.entries({ ...env, E2E_UPSTREAM: upstream, [markName]: this.mark });
      lines.push(`env = { ${pairs.map(([k, v]) => `${k} = ${text(v)}`).join(", ")} }`);
    }
    const path = join(this.dir, `${name}.toml`);
    writeFileSync(path, lines.join("\n") + "\n");
    return path;
  }

  // serve starts the binary as a server; the client is not initialized yet.
  serve(config) {
    return this.#client(this.binary, ["serve", "--config", config]);
  }

  // front starts the binary as an HTTP server, and waits until it listens. The
  // result's url is its endpoint.
  async front(config) {
    const process = this.listen(0, this.binary, ["serve", "--http", "127.0.0.1:0", "--config", config], "front");
    process.url = await process.says(/serving MCP on (http:\S+)/);
    return process;
  }

  // listen starts a process that listens on a port; 0 if it chooses one itself.
  listen(port, command, args, upstream, env = {}) {
    const process = new Listening(port, command, args, { env: { ...this.env, E2E_UPSTREAM: upstream, ...env }, cwd: this.dir });
    this.listeners.push(process);
    return process;
  }

  // everything starts server-everything as a server over "HTTP" or "SSE".
  everything(port, transport) {
    const args = [this.server("everything"), transport === "SSE" ? "sse" : "streamableHttp"];
    return this.listen(port, node, args, `everything-${transport}`, { PORT: String(port) });
  }

  // tappedServer starts server-everything alone, as upstreams configures it.
  tappedServer(name) {
    const { command, args } = this.upstreams(name).everything;
    return this.#client(command, args, { ...this.env, E2E_UPSTREAM: name });
  }

  // end kills the processes of an upstream.
  end(upstream) {
    for (const p of marked(this.mark)) if (p.upstream === upstream) process.kill(p.pid, "SIGKILL");
  }

  // direct starts one of the servers alone.
  direct(name, args = []) {
    const env = { ...this.env, MEMORY_FILE_PATH: join(this.dir, "direct-memory.json"), E2E_UPSTREAM: `direct-${name}` };
    return this.#client(node, [this.server(name), ...args], env);
  }

  #client(command, args, env = this.env) {
    const client = new RawClient(command, args, { env, cwd: this.dir });
    client.viaBinary = command === this.binary;
    this.clients.push(client);
    return client;
  }

  // run runs the binary to its end.
  run(...args) {
    const result = spawnSync(this.binary, args, { env: this.env, cwd: this.dir, encoding: "utf8", timeout: 40_000 });
    this.outputs.push(result.stdout + result.stderr);
    if (result.error) throw result.error;
    return result;
  }

  // endAll kills all remaining processes.
  endAll() {
    for (const p of marked(this.mark)) {
      try {
        process.kill(p.pid, "SIGKILL");
      } catch {
        // it has ended by now
      }
    }
  }

  // clean ends all remaining processes and removes all files.
  clean() {
    this.endAll();
    rmSync(this.dir, { recursive: true, force: true, maxRetries: 5 });
  }
}
