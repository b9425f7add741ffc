// What the checks and the pictures of the page share: a configuration in a new folder, the
// program, and Chromium.

import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RawClient } from "../rawclient.js";

export const [binary, modules, pictures] = process.argv.slice(2);
const require = createRequire(join(modules, "x.js"));
const { chromium } = require("playwright-core");

export const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
export const here = new URL(".", import.meta.url).pathname;
export const limit = 60_000; // ms, for what a loaded machine may delay
export const dir = mkdtempSync(join(tmpdir(), "mcp-metatool-page-"));
export const config = join(dir, "config.toml");
export const env = { ...process.env, MCP_METATOOL_CONFIG: config, PATH: `${join(dir, "bin")}:${process.env.PATH}` };
mkdirSync(join(dir, "bin")); // for a browser that is not one
export const sizes = { wide: { width: 1440, height: 900 }, narrow: { width: 360, height: 780 } };

export function assert(condition, message) {
  if (!condition) throw new Error(message);
}

// run runs a tool, and returns what it prints.
export function run(name, params) {
  try {
    return execFileSync(binary, ["run", name, "--params", JSON.stringify(params), "--log-level", "error"], { env, encoding: "utf8", timeout: limit, stdio: ["ignore", "pipe", "ignore"] });
  } catch (error) {
    if (error.status === 1) return ""; // the tool failed
    throw error;
  }
}

// demo is the table of a server of the demo.
export function demo(name) {
  return `[upstream.${name}]\ncommand = ${JSON.stringify(binary)}\nargs = ["demo-upstream", "${name}"]\n`;
}

// script is the table of a server in this folder.
export function script(name, file, ...args) {
  return `[upstream.${name}]\ncommand = ${JSON.stringify(process.execPath)}\nargs = ${JSON.stringify([join(here, file), ...args])}\n`;
}

// agent connects to a server of its own with this configuration, as an MCP client that can
// ask its user nothing. It must be closed.
export async function agent() {
  const client = new RawClient(binary, ["serve", "--log-level", "error"], { env });
  await client.initialize();
  return client;
}

// cli runs another command, and returns what it prints as JSON.
export function cli(...args) {
  return JSON.parse(execFileSync(binary, [...args, "--json"], { env, encoding: "utf8", timeout: limit }));
}

// start starts mcp-metatool ui and returns its link, when it has printed it.
export async function start(...args) {
  const child = spawn(binary, ["ui", "--log-level", "error", ...args], { env, stdio: ["ignore", "pipe", "ignore"] });
  const ended = new Promise((resolve) => { child.on("exit", resolve); });
  const link = await new Promise((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (chunk) => {
      text += chunk;
      if (text.includes("\n")) resolve(text.trim());
    });
    ended.then(() => reject(new Error(`ui ended: ${text}`)));
  });
  return { child, link, ended };
}

export function launch() {
  return chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
}

// open opens the page in a context of its own, or in one that is given. What it must never
// do is collected in page.wrong.
export async function open(browser, link, options = {}) {
  const { context = await browser.newContext({ viewport: sizes.wide, ...options }) } = options;
  const page = await context.newPage();
  page.setDefaultTimeout(limit);
  page.wrong = [];
  page.on("console", (m) => { if (["error", "warning"].includes(m.type()) && !/401|403|404|409/.test(m.text())) page.wrong.push(m.text()); });
  page.on("pageerror", (error) => page.wrong.push(error.message));
  page.on("request", (request) => { if (new URL(request.url()).host !== new URL(link).host && !request.url().startsWith("data:image/png;")) page.wrong.push(`request of ${request.url()}`); });
  await page.goto(link);
  await page.getByRole("heading", { level: 1 }).waitFor();
  return page;
}

// go shows a view and waits until it is there.
export async function go(page, hash) {
  await page.evaluate((h) => new Promise((resolve) => {
    if (location.hash === h) {
      resolve();
      return;
    }
    window.addEventListener("hashchange", resolve, { once: true }); // after the page has heard of it
    location.hash = h;
  }), hash);
  await page.waitForFunction(() => !document.querySelector("[aria-busy]"));
}

// end removes the folder.
export function end() {
  rmSync(dir, { recursive: true, force: true });
}
