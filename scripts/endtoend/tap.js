// A proxy in front of a server over HTTP that keeps what is posted to it.

import { createServer, request } from "node:http";
import { member } from "./rawjson.js";

export class Tap {
  posted = []; // {raw, value, params}, as Setup.tapped gives them
  #answered;
  // listening resolves when a GET has been answered.
  listening = new Promise((resolve) => (this.#answered = resolve));

  // of returns a Tap that listens, for the server at a port of this machine.
  static async of(port) {
    const tap = new Tap();
    tap.server = createServer((req, res) => tap.#forward(port, req, res));
    await new Promise((resolve) => tap.server.listen(0, "127.0.0.1", resolve));
    tap.port = tap.server.address().port;
    return tap;
  }

  #forward(port, req, res) {
    let body = "";
    req.setEncoding("utf8").on("data", (chunk) => (body += chunk));
    req.on("end", () => {
      if (req.method === "POST") this.posted.push({ raw: body, value: JSON.parse(body), params: member(body, "params") });
      const headers = { ...req.headers, host: `127.0.0.1:${port}` };
      const onward = request({ host: "127.0.0.1", port, path: req.url, method: req.method, headers }, (answer) => {
        res.writeHead(answer.statusCode, answer.headers);
        res.flushHeaders();
        if (req.method === "GET") this.#answered();
        answer.pipe(res);
      });
      onward.on("error", () => res.destroy());
      res.on("close", () => onward.destroy());
      onward.end(body);
    });
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }
}
