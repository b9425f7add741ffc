// The base class of the clients of both transports. It keeps the raw messages,
// because SDK clients hide what matters here: the order of progress and results,
// digits of numbers, unknown members.

import { elements, member } from "./rawjson.js";
import { within } from "./report.js";

const patience = 30_000; // ms to wait for one message

export class Client {
  messages = []; // {raw, value} in the order of arrival
  noise = []; // what came instead of JSON-RPC messages
  handlers = {}; // method of a request from the server -> params -> result as raw JSON text
  #waiting = new Set();
  #nextId = 1;

  // A subclass has write(text), which sends a message unchanged; exited, a promise
  // of how the server's process ended; and stderr.

  // arrived handles a message.
  arrived(raw) {
    const value = parse(raw);
    if (value?.jsonrpc !== "2.0") {
      this.noise.push(raw);
      return;
    }
    this.messages.push({ raw, value });
    const handler = "id" in value && this.handlers[value.method];
    if (handler) this.write(`{"jsonrpc":"2.0","id":${member(raw, "id")},"result":${handler(value.params)}}`);
    for (const look of this.#waiting) look();
  }

  notify(method, params) {
    this.write(JSON.stringify({ jsonrpc: "2.0", method, params }));
  }

  // wait waits for the first message at or after index from that matches.
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

  // start sends a request with params as raw JSON text, and returns its id.
  start(method, params, id = JSON.stringify(this.#nextId++)) {
    this.write(`{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(method)},"params":${params}}`);
    return id;
  }

  // answer waits for the response to an id (raw JSON text).
  answer(id, options) {
    const value = JSON.parse(id);
    return this.wait(`answer to ${id}`, (m) => m.id === value && !("method" in m), options);
  }

  // request returns the response's {raw, value}. params: raw text or a value.
  request(method, params = {}, options) {
    const from = this.messages.length;
    return this.answer(this.start(method, typeof params === "string" ? params : JSON.stringify(params)), { from, ...options });
  }

  call(name, args = {}, options) {
    return this.request("tools/call", { name, arguments: args }, options);
  }

  // initialize returns the answer; capabilities are the client's.
  async initialize(version = "2025-11-25", capabilities = {}) {
    const answer = await this.request("initialize", {
      protocolVersion: version, capabilities, clientInfo: { name: "e2e", version: "1" },
    });
    this.initializeTime = performance.now() - this.started;
    this.notify("notifications/initialized");
    return answer;
  }

  // list returns the raw texts of all listed items, over all pages. of is the first
  // part of the method and the member of the result.
  async list(of, method = `${of}/list`) {
    const all = [];
    for (let cursor; ; ) {
      const page = await this.request(method, cursor === undefined ? {} : { cursor });
      if (page.value.error) throw new Error(`${method}: ${page.raw}`);
      all.push(...elements(member(page.raw, "result", of)));
      cursor = page.value.result.nextCursor;
      if (cursor === undefined) return all;
    }
  }

  // definitions lists all tools, as {name, raw text}.
  async definitions() {
    return (await this.list("tools")).map((raw) => ({ name: JSON.parse(raw).name, raw }));
  }
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
