// A client over streamable HTTP: each message is a POST, answers are JSON or a
// stream of events, and other messages come on a GET stream.

import { Agent, request } from "node:http";
import { Client } from "./client.js";
import { member } from "./rawjson.js";

export class HttpClient extends Client {
  started = performance.now();
  problems = []; // broken streams, and invalid answers
  #agent = new Agent({ keepAlive: true });
  #session = {}; // header fields of the session
  #before = Promise.resolve(); // resolves when the last message that is not a request was accepted

  // process is the Listening that serves url.
  constructor(url, process) {
    super();
    this.url = url;
    this.child = process.child;
    this.exited = process.exited;
    this.process = process;
  }

  get stderr() {
    return this.process.output;
  }

  // session returns the session id.
  get session() {
    return this.#session["Mcp-Session-Id"];
  }

  // write posts one message. It waits until the server has accepted earlier messages
  // that are not requests. It does not wait for earlier requests, because their
  // answers may take any time.
  write(text) {
    const sent = this.#before.then(() => this.post(text));
    if (!/"method":"/.test(text) || !/"id":/.test(text)) this.#before = sent;
    return sent;
  }

  // post sends a body and returns {status, headers} when the response is complete.
  async post(text) {
    const response = await this.exchange("POST", { "Content-Type": "application/json" }, text);
    const session = response.headers["mcp-session-id"];
    if (session && !this.#session["Mcp-Session-Id"]) this.#session["Mcp-Session-Id"] = session;
    await this.#take(response);
    return { status: response.statusCode, headers: response.headers };
  }

  // exchange returns the response as soon as its header has arrived.
  exchange(method, headers = {}, body) {
    return new Promise((resolve, reject) => {
      const all = { Accept: "application/json, text/event-stream", ...this.#session, ...headers };
      const req = request(this.url, { method, headers: all, agent: this.#agent }, resolve);
      req.on("error", (err) => {
        this.problems.push(`${method}: ${err.message}`);
        reject(err);
      });
      req.end(body);
    }).catch((err) => ({ statusCode: 0, headers: {}, failed: err }));
  }

  async initialize(version, capabilities) {
    const answer = await super.initialize(version, capabilities);
    if (answer.value.result) this.#session["MCP-Protocol-Version"] = JSON.parse(member(answer.raw, "result", "protocolVersion"));
    await this.#before;
    this.listen();
    return answer;
  }

  // listen opens the GET stream and reads it until it ends.
  async listen() {
    const response = await this.exchange("GET", { Accept: "text/event-stream" });
    if (response.statusCode === 200) await this.#take(response);
    else this.problems.push(`GET: status ${response.statusCode}`);
  }

  // #take reads a response to its end.
  async #take(response) {
    if (response.failed) return;
    try {
      if (/^text\/event-stream/.test(response.headers["content-type"] ?? "")) {
        for await (const { data } of this.events(response)) if (data) this.arrived(data);
        return;
      }
      let text = "";
      for await (const chunk of response.setEncoding("utf8")) text += chunk;
      if (text.trim()) this.arrived(text);
    } catch (err) {
      this.problems.push(err.message);
    }
  }

  // events returns the events of a stream as {id, data}.
  async *events(response) {
    let rest = "";
    for await (const chunk of response.setEncoding("utf8")) {
      const blocks = (rest + chunk).split(/\r?\n\r?\n/);
      rest = blocks.pop();
      for (const block of blocks) {
        const field = (name) => block.split(/\r?\n/).filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).replace(/^ /, ""));
        yield { id: field("id").at(-1), data: field("data").join("\n") };
      }
    }
  }

  // close ends the session and returns the status of the response.
  async close() {
    await this.#before;
    const { statusCode } = await this.exchange("DELETE");
    this.#agent.destroy();
    return statusCode;
  }
}
