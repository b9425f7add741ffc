// A page in headless Chromium: its network requests, and a screenshot.

import { spawn } from "node:child_process";
import { accessSync, constants, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { delimiter, join } from "node:path";
import { inflateSync } from "node:zlib";
import { assert, within } from "./report.js";

const limit = 20_000; // ms

const quiet = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--disable-extensions", "--hide-scrollbars",
  "--disable-features=NetworkTimeServiceQuerying",
];

// chromium is the path of the browser, undefined if there is none.
export function chromium() {
  for (const name of ["chromium", "chromium-browser", "google-chrome"]) {
    for (const dir of (process.env.PATH ?? "").split(delimiter)) {
      const path = join(dir || ".", name);
      try {
        accessSync(path, constants.X_OK);
        return path;
      } catch {
        // it is not there
      }
    }
  }
  return undefined;
}

// look opens an HTML page and returns {requests, screenshot}. All requests of the
// browser go through our proxy, also the one for the page; it is an error if that
// one is missing. requests are the others that a page can cause: to its own host,
// or to one that it names. Browsers make other requests for themselves.
export async function look(browser, page, { width, height, dir, env }) {
  const requests = [];
  let served = 0;
  const address = "http://page.invalid/run.html";
  const caused = ({ hostname }) => hostname === "page.invalid" || page.includes(hostname);
  const proxy = createServer((request, response) => {
    if (request.url === address && served++ === 0) {
      response.writeHead(200, { "Content-Type": "text/html; charset=utf-8" }).end(page);
      return;
    }
    if (caused(new URL(request.url))) requests.push(`${request.method} ${request.url}`);
    response.writeHead(404).end();
  });
  proxy.on("connect", (request, socket) => {
    if (caused(new URL(`https://${request.url}`))) requests.push(`CONNECT ${request.url}`);
    socket.destroy();
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const screenshot = join(dir, "page.png");
  try {
    await run(browser, [
      ...quiet, `--proxy-server=127.0.0.1:${proxy.address().port}`, `--user-data-dir=${join(dir, "browser")}`,
      `--window-size=${width},${height}`, `--screenshot=${screenshot}`, address,
    ], env);
  } finally {
    proxy.closeAllConnections();
    await new Promise((resolve) => proxy.close(resolve));
  }
  assert(served === 1, "the browser has not asked for the page");
  return { requests, screenshot: readFileSync(screenshot) };
}

async function run(command, args, env) {
  const child = spawn(command, args, { env, stdio: ["ignore", "ignore", "pipe"] });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (chunk) => (stderr += chunk));
  const ended = new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", resolve);
  });
  try {
    const code = await within(limit, "the browser's end", ended);
    assert(code === 0, `the browser ended with ${code}: ${stderr.slice(-600)}`);
  } finally {
    child.kill("SIGKILL");
  }
}

// picture reads a PNG with 8 bits per channel (PNG Specification, Third Edition).
// It returns its size and its number of colours.
export function picture(png) {
  assert(png.subarray(0, 8).equals(Buffer.from("\x89PNG\r\n\x1a\n", "latin1")), "it is no PNG");
  const parts = [];
  for (let at = 8; at + 12 <= png.length; at += 12 + png.readUInt32BE(at)) {
    if (png.toString("latin1", at + 4, at + 8) === "IDAT") parts.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)));
  }
  const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)];
  const [depth, kind, interlaced] = [png[24], png[25], png[28]];
  const channels = { 2: 3, 6: 4 }[kind];
  assert(depth === 8 && channels && !interlaced, `a PNG of depth ${depth} and colour type ${kind} is not read here`);
  return { width, height, colours: colours(inflateSync(Buffer.concat(parts)), width, height, channels) };
}

// colours counts the colours of filtered scanlines.
function colours(lines, width, height, channels) {
  const size = width * channels;
  assert(lines.length === height * (size + 1), `${lines.length} bytes of pixels`);
  const found = new Set();
  let above = Buffer.alloc(size);
  for (let y = 0; y < height; y++) {
    const start = y * (size + 1);
    const line = lines.subarray(start + 1, start + 1 + size);
    unfilter(lines[start], line, above, channels);
    for (let x = 0; x < size; x += channels) found.add(line.readUIntBE(x, channels));
    above = line;
  }
  return found.size;
}

// unfilter undoes the filter of a scanline, in place.
function unfilter(type, line, above, channels) {
  for (let i = 0; i < line.length; i++) {
    const left = i < channels ? 0 : line[i - channels];
    const corner = i < channels ? 0 : above[i - channels];
    line[i] += [0, left, above[i], (left + above[i]) >> 1, paeth(left, above[i], corner)][type];
  }
}

function paeth(left, up, corner) {
  const near = left + up - corner;
  const [a, b, c] = [Math.abs(near - left), Math.abs(near - up), Math.abs(near - corner)];
  if (a <= b && a <= c) return left;
  return b <= c ? up : corner;
}
