// A client over stdin and stdout of a process it starts.

import { spawn } from "node:child_process";
import { Client } from "./client.js";
import { within } from "./report.js";

export class RawClient extends Client {
  stderr = "";
  #rest = "";

  constructor(command, args, { env = process.env, cwd } = {}) {
    super();
    this.started = performance.now();
    this.child = spawn(command, args, { env, cwd, stdio: ["pipe", "pipe", "pipe"] });
    this.child.stdin.on("error", () => {}); // seen as exit
    this.child.stdout.setEncoding("utf8").on("data", (chunk) => this.#read(chunk));
    this.child.stderr.setEncoding("utf8").on("data", (chunk) => (this.stderr += chunk));
    this.exited = new Promise((resolve) => {
      this.child.on("error", (err) => resolve({ code: null, signal: null, err }));
      this.child.on("exit", (code, signal) => resolve({ code, signal }));
    });
    // Unlike exit, close comes after the last byte of stdout and stderr.
    this.closed = new Promise((resolve) => this.child.on("close", resolve));
  }

  #read(chunk) {
    const lines = (this.#rest + chunk).split("\n");
    this.#rest = lines.pop();
    for (const line of lines) this.arrived(line);
  }

  // unfinished returns what came after the last newline.
  get unfinished() {
    return this.#rest;
  }

  // write sends one line unchanged.
  write(line) {
    this.child.stdin.write(line + "\n");
  }

  // close closes stdin, and kills the process if it does not end.
  async close() {
    this.child.stdin.end();
    await within(10_000, "exit after end of input", this.exited).catch(() => this.child.kill("SIGKILL"));
    return this.exited;
  }
}
