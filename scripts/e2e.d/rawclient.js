// A client that sees the lines themselves. SDK clients hide what matters here:
// the order of progress and results, digits of numbers, unknown members.

import { spawn } from "node:child_process";
import { elements, member } from "./rawjson.js";
import { within } from "./report.js";

const patience = 30_000; // ms to wait for one message

export class RawClient {
  messages = []; // {raw, value} in the order of arrival
  noise = []; // lines of stdout that are not JSON-RPC messages
  stderr = "";
  #waiting = new Set();
  #nextId = 1;
  #rest = "";

  constructor(command, args, { env = process.env, cwd } = {}) {
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
    for (const raw of lines) {
      const value = parse(raw);
      if (value?.jsonrpc !== "2.0") {
        this.noise.push(raw);
        continue;
      }
      this.messages.push({ raw, value });
      for (const look of this.#waiting) look();
    }
  }

  // unfinished is what came after the last newline.
  get unfinished() {
    return this.#rest;
  }

  // write sends one line as it is.
  write(line) {
    this.child.stdin.write(line + "\n");
  }

  notify(method, params) {
    this.write(JSON.stringify({ jsonrpc: "2.0", method, params }));
  }

  // wait gives the first message at or after index from that matches.
  wait(what, matches, { from = 0, timeout = patience } = {}) {
    let look;
    const found = new Promise((resolve, reject) => {
      look = () => {
        for (; from < this.messages.length; from++) {
          if (matches(this.messages[from].value)) return resolve(this.messages[from]);
        }
      };
      this.#waiting.add(look);
      look();
      this.exited.then(({ code, signal, err }) => {
        const how = err?.message ?? signal ?? `code ${code}`;
        setImmediate(() => reject(new Error(`${what}: the process ended (${how}): ${this.stderr.slice(-400)}`)));
      });
    });
    return within(timeout, what, found).finally(() => this.#waiting.delete(look));
  }

  // start sends a request whose params are raw JSON text and gives its id.
  start(method, params, id = JSON.stringify(this.#nextId++)) {
    this.write(`{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(method)},"params":${params}}`);
    return id;
  }

  // answer waits for the response to an id (raw JSON text).
  answer(id, options) {
    const value = JSON.parse(id);
    return this.wait(`answer to ${id}`, (m) => m.id === value && !("method" in m), options);
  }

  // request gives the response's {raw, value}. params: raw text or a value.
  request(method, params = {}, options) {
    return this.answer(this.start(method, typeof params === "string" ? params : JSON.stringify(params)), options);
  }

  call(name, args = {}, options) {
    return this.request("tools/call", { name, arguments: args }, options);
  }

  async initialize(version = "2025-11-25") {
    const answer = await this.request("initialize", {
      protocolVersion: version, capabilities: {}, clientInfo: { name: "e2e", version: "1" },
    });
    this.initializeTime = performance.now() - this.started;
    this.notify("notifications/initialized");
    return answer;
  }

  // definitions lists all tools over all pages, as {name, raw text}.
  async definitions() {
    const all = [];
    for (let cursor; ; ) {
      const page = await this.request("tools/list", cursor === undefined ? {} : { cursor });
      if (page.value.error) throw new Error(`tools/list: ${page.raw}`);
      for (const raw of elements(member(page.raw, "result", "tools"))) all.push({ name: JSON.parse(raw).name, raw });
      cursor = page.value.result.nextCursor;
      if (cursor === undefined) return all;
    }
  }

  // close ends stdin, and the process when that does not end it.
  async close() {
    this.child.stdin.end();
    await within(10_000, "exit after end of input", this.exited).catch(() => this.child.kill("SIGKILL"));
    return this.exited;
  }
}

function parse(line) {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
