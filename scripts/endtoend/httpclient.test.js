import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { HttpClient } from "./httpclient.js";

test("events are read regardless of how they are cut into chunks", async () => {
  const text = ': comment\n\nid: 1\ndata:\n\nevent: message\nid: 2\ndata: {"a":\ndata: 1}\n\ndata:x\r\n\r\nretry: 5\n\ndata: cut off';
  for (let size = 1; size <= text.length; size += 3) {
    const server = createServer(async (_, res) => {
      res.writeHead(200, { "Content-Type": "text/event-stream" });
      for (let i = 0; i < text.length; i += size) await new Promise((done) => res.write(text.slice(i, i + size), done));
      res.end();
    });
    await new Promise((done) => server.listen(0, "127.0.0.1", done));
    const client = new HttpClient(`http://127.0.0.1:${server.address().port}/`, { exited: new Promise(() => {}) });
    const events = [];
    for await (const event of client.events(await client.exchange("GET"))) events.push(event);
    const got = events.filter(({ id, data }) => id || data);
    assert.deepEqual(got, [{ id: "1", data: "" }, { id: "2", data: '{"a":\n1}' }, { id: undefined, data: "x" }], `pieces of ${size}`);
    server.closeAllConnections();
    server.close();
  }
});
