// A client over streamable HTTP: every message a POST of its own, answers as
// JSON or as a stream of events, and a GET stream for the rest.

import { Agent, request } from "node:http";
import { Client } from "./client.js";
import { member } from "./rawjson.js";

export class HttpClient extends Client {
  started = performance.now();
  problems = []; // of streams that broke, and answers that are none
  #agent = new Agent({ keepAlive: true });
  #session = {}; // header fields of the session
  #before = Promise.resolve(); // the last message that is no request has been taken

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

  // session is its id.
  get session() {
    return this.#session["Mcp-Session-Id"];
  }

  // write posts one message. Messages that are no requests are taken one after
  // the other, and before any message that is written later; requests are not
  // waited for, as their answers may take as long as they like.
  write(text) {
    const sent = this.#before.then(() => this.post(text));
    if (!/"method":"/.test(text) || !/"id":/.test(text)) this.#before = sent;
    return sent;
  }

  // post sends a body and gives {status, headers} when the answer is complete.
  async post(text) {
    const response = await this.exchange("POST", { "Content-Type": "application/json" }, text);
    const session = response.headers["mcp-session-id"];
    if (session && !this.#session["Mcp-Session-Id"]) this.#session["Mcp-Session-Id"] = session;
    await this.#take(response);
    return { status: response.statusCode, headers: response.headers };
  }

  // exchange gives the response as soon as its header is there.
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

  // #take reads an answer to its end.
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

  // events gives the events of a stream as {id, data}.
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

  // close ends the session and gives the status of the answer.
  async close() {
    await this.#before;
    const { statusCode } = await this.exchange("DELETE");
    this.#agent.destroy();
    return statusCode;
  }
}
