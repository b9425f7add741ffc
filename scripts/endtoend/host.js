// A host: a client over stdio that speaks either era, and answers what servers ask.

import { RawClient } from "./rawclient.js";

export const revisions = { legacy: "2025-11-25", modern: "2026-07-28" };

const rounds = 10; // in which one request may be answered with questions

export class Host {
  // handlers has, by method, functions of params that give the result as a value.
  constructor(era, command, args, { env, cwd, capabilities, handlers = {} }) {
    this.era = era;
    this.capabilities = capabilities;
    this.handlers = handlers;
    this.client = new RawClient(command, args, { env, cwd });
    for (const [method, handler] of Object.entries(handlers)) {
      this.client.handlers[method] = (params) => JSON.stringify(handler(params));
    }
  }

  // open returns the server's answer to initialize or server/discover.
  open() {
    if (this.era === "legacy") return this.client.initialize(revisions.legacy, this.capabilities);
    return this.request("server/discover");
  }

  // request returns the answer's {raw, value}. A modern host answers the questions of
  // a result in the next round.
  async request(method, params = {}) {
    if (this.era === "legacy") return this.client.request(method, params);
    let round = {};
    for (let n = 0; n <= rounds; n++) {
      const answer = await this.client.request(method, { ...params, ...round, _meta: { ...params._meta, ...this.#envelope() } });
      const { result } = answer.value;
      if (result?.resultType !== "input_required") return answer;
      round = this.#replies(result);
    }
    throw new Error(`${method}: more than ${rounds} rounds`);
  }

  // result returns the result of a request, and fails for an error.
  async result(method, params) {
    const { raw, value } = await this.request(method, params);
    if (!value.result) throw new Error(`${method}: ${raw}`);
    return value.result;
  }

  // listen opens a subscription, and returns its id when it is acknowledged.
  async listen(notifications) {
    const from = this.client.messages.length;
    const id = JSON.parse(this.client.start("subscriptions/listen", JSON.stringify({ notifications, _meta: this.#envelope() })));
    const acknowledges = (m) => m.method === "notifications/subscriptions/acknowledged" && m.params._meta["io.modelcontextprotocol/subscriptionId"] === id;
    await this.client.wait("acknowledgement", (m) => acknowledges(m) || m.id === id, { from });
    return id;
  }

  #envelope() {
    return {
      "io.modelcontextprotocol/protocolVersion": revisions.modern,
      "io.modelcontextprotocol/clientCapabilities": this.capabilities,
      "io.modelcontextprotocol/clientInfo": { name: "e2e", version: "1" },
    };
  }

  #replies({ inputRequests = {}, requestState }) {
    const reply = ({ method, params }) => {
      if (!this.handlers[method]) throw new Error(`the server asks ${method}, and the host declared ${JSON.stringify(this.capabilities)}`);
      return this.handlers[method](params);
    };
    const inputResponses = Object.fromEntries(Object.entries(inputRequests).map(([key, request]) => [key, reply(request)]));
    return { inputResponses, ...(requestState === undefined ? {} : { requestState }) };
  }

  close() {
    return this.client.close();
  }
}
