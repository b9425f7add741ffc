// server-everything behind the binary, over each combination of transports.

import { HttpClient } from "./httpclient.js";
import { freePort } from "./listening.js";
import { Tap } from "./tap.js";

export const combinations = ["stdio", "HTTP"].flatMap((client) =>
  ["stdio", "HTTP", "SSE"].map((upstream) => ({ client, upstream })));

// capabilities of the clients: all of them, so that the server offers everything.
export const capabilities = {
  sampling: { tools: {}, context: {} },
  elicitation: { form: {}, url: {} },
  roots: { listChanged: true },
  tasks: { list: {}, cancel: {}, requests: { sampling: { createMessage: {} }, elicitation: { create: {} } } },
};

// answers to the server's requests, with members that typed proxies would drop.
const handlers = {
  "roots/list": () => '{"roots":[{"uri":"file:///e2e/root","name":"the root","_meta":{"n":9007199254740993}}]}',
  "sampling/createMessage": () =>
    '{"role":"assistant","content":{"type":"text","text":"s\\u00e4mpled"},"model":"e2e","stopReason":"endTurn","_meta":{"example.com/x":[1,null]}}',
  "elicitation/create": (params) =>
    params.mode === "url" ? '{"action":"accept"}' : '{"action":"accept","content":{"name":"Ann","check":true,"integer":7}}',
};

// Combination is a client of server-everything. It has what is needed to observe
// both sides: client, name (returns the client's name for a tool or prompt) and
// tapped (returns what has reached the server).
export class Combination {
  #stops = [];

  static async direct(setup) {
    const place = new Combination();
    place.client = setup.tappedServer("fidelity-direct");
    place.#stops.push(() => setup.end("fidelity-direct")); // it does not end by itself while it keeps tasks
    place.name = (name) => name;
    place.tapped = () => setup.tapped("fidelity-direct");
    return place.#open();
  }

  static async start(setup, client, upstream) {
    const place = new Combination();
    const name = `fidelity-${client}-${upstream}`;
    const config = setup.configure(name, { everything: await place.#upstream(setup, name, upstream) });
    if (client === "stdio") place.client = setup.serve(config);
    else {
      place.process = await setup.front(config);
      place.client = new HttpClient(place.process.url, place.process);
    }
    place.name = (tool) => `everything__${tool}`;
    return place.#open();
  }

  // #upstream returns the server's part of the configuration.
  async #upstream(setup, name, transport) {
    if (transport === "stdio") {
      this.tapped = () => setup.tapped(name);
      return setup.upstreams(name).everything;
    }
    const port = await freePort();
    const process = await setup.everything(port, transport).ready();
    const tap = await Tap.of(port);
    this.#stops.push(() => tap.close(), () => process.stop());
    this.tapped = () => tap.posted;
    const at = `http://127.0.0.1:${tap.port}`;
    return transport === "SSE" ? { url: `${at}/sse`, transport: "sse" } : { url: `${at}/mcp` };
  }

  async #open() {
    Object.assign(this.client.handlers, handlers);
    await this.client.initialize("2025-11-25", capabilities);
    return this;
  }

  async stop() {
    if (this.process) {
      await this.client.close();
      await this.process.stop();
    }
    for (const stop of this.#stops) await stop();
    if (!this.process) await this.client.close();
  }
}
