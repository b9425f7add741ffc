// Processes that listen on a port: the binary's HTTP front end, servers over HTTP.

import { spawn } from "node:child_process";
import { connect, createServer } from "node:net";
import { until, within } from "./report.js";

const patience = 20_000; // ms until a process listens

export class Listening {
  output = ""; // stdout and stderr

  constructor(port, command, args, { env = process.env, cwd } = {}) {
    this.port = port;
    this.child = spawn(command, args, { env, cwd, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.setEncoding("utf8").on("data", (chunk) => (this.output += chunk));
    }
    this.exited = new Promise((resolve) => {
      this.child.on("error", (err) => resolve({ code: null, signal: null, err }));
      this.child.on("exit", (code, signal) => resolve({ code, signal }));
    });
    this.closed = new Promise((resolve) => this.child.on("close", resolve));
  }

  // ready waits until a connection is accepted, and returns the process.
  async ready() {
    await this.#until(`listens on port ${this.port}`, () => accepts(this.port));
    return this;
  }

  // says waits until its output matches, and returns the first group.
  says(pattern) {
    return this.#until(`says ${pattern}`, () => pattern.exec(this.output)?.[1]);
  }

  async #until(what, condition) {
    const name = this.child.spawnfile;
    const over = this.exited.then(({ code, signal, err }) => {
      throw new Error(`${name} ended (${err?.message ?? signal ?? `code ${code}`}): ${this.output.slice(-800)}`);
    });
    over.catch(() => {}); // others deal with its later end
    return Promise.race([over, until(patience, `${name} ${what}`, condition)]);
  }

  // stop ends it like a service manager.
  async stop() {
    this.child.kill("SIGTERM");
    await within(10_000, "exit after SIGTERM", this.exited).catch(() => this.child.kill("SIGKILL"));
    return this.exited;
  }
}

function accepts(port) {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.on("connect", () => resolve(true)).on("error", () => resolve(false));
    socket.on("connect", () => socket.destroy());
  });
}

// freePort returns a port that nothing listens on.
export function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
