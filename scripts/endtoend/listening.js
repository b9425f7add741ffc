// Processes that listen on a port: the binary's HTTP front end, servers over HTTP.

import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { createSocket } from "node:dgram";
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

// freePort returns a port for a process that cannot choose one itself. Systems give ports from
// 32768 on to whoever asks for any, so one below is still free when the process listens. A UDP
// socket of this process claims it, so that nobody else who looks for a port this way gets it.
export async function freePort() {
  for (let attempts = 0; attempts < 100; attempts++) {
    const port = randomInt(12_000, 32_768);
    const claim = createSocket("udp4").unref();
    if (!(await binds(claim, () => claim.bind({ address: "127.0.0.1", port, exclusive: true })))) continue;
    const server = createServer();
    if (await binds(server, () => server.listen(port, "127.0.0.1"))) {
      await new Promise((resolve) => server.close(resolve));
      return port;
    }
    claim.close();
  }
  throw new Error("no free port has been found on 127.0.0.1");
}

// binds reports whether a socket can have an address.
function binds(socket, bind) {
  return new Promise((resolve) => {
    socket.once("listening", () => resolve(true)).once("error", () => resolve(false));
    bind();
  });
}
