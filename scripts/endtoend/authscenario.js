// The command that the conformance suite starts for one of its scenarios of
// authorization. It is a host, and a user who logs in when the binary says so:
//
//	node authscenario.js BINARY ERA URL
//
// ERA is the host's: legacy or modern. The user has a browser that grants every request.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawn } from "node:child_process";
import { Host } from "./host.js";

const tool = "test-tool";
const advice = "run `mcp-metatool auth server`";
const logins = 5; // more than a server may make a user do

// The suite accepts this client without reading the document.
const clientMetadata = "https://conformance-test.local/client-metadata.json";

// oauth returns the settings that an operator writes for a scenario. A client that was
// registered by hand is known to one authorization server, whose name is known too.
async function oauth(url, { client_id, client_secret }) {
  if (!client_id) return { client_metadata: clientMetadata };
  const { origin, pathname } = new URL(url);
  const metadata = await fetch(`${origin}/.well-known/oauth-protected-resource${pathname}`);
  return { client_id, client_secret, issuer: (await metadata.json()).authorization_servers[0] };
}

// command runs the binary, and calls seen with what it has said so far, whenever it says
// something. It returns {code, said}.
function command(binary, args, dir, seen = () => {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(binary, args, { cwd: dir, stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (chunk) => seen((said += chunk)));
    child.on("error", reject);
    child.on("close", (code) => {
      process.stderr.write(said);
      resolve({ code, said });
    });
  });
}

// login runs the command auth, and opens the address that it prints.
async function login(binary, config, dir) {
  let page;
  const { code } = await command(binary, ["auth", "server", "--no-browser", "--config", config], dir, (said) => {
    const address = said.match(/^ {2}(http\S+)\n/m)?.[1];
    if (address) page ??= fetch(address); // follows redirects, as a browser does
  });
  await (await page)?.text();
  if (code !== 0) throw new Error(`auth ended with code ${code}`);
}

// used returns what a user sees after calling the tool: its answer or the error.
async function used(host) {
  const { raw, value } = await host.request("tools/call", { name: tool, arguments: {} });
  return { ok: value.result && !value.result.isError, raw };
}

async function main([binary, era, url]) {
  const dir = mkdtempSync(join(tmpdir(), "mcp-metatool-auth-"));
  const config = join(dir, "config.toml");
  const settings = Object.entries(await oauth(url, JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}")));
  const lines = settings.map(([key, value]) => `${key} = ${JSON.stringify(value)}\n`).join("");
  writeFileSync(config, `startup_wait = "60s"\n[store]\ndir = ${JSON.stringify(dir)}\n[upstream.server]\nurl = ${JSON.stringify(url)}\nprefix = ""\n[upstream.server.oauth]\n${lines}`);
  let host;
  try {
    const { said } = await command(binary, ["servers", "--config", config], dir);
    if (said.includes(advice)) await login(binary, config, dir);
    host = new Host(era, binary, ["serve", "--config", config], { cwd: dir, capabilities: {} });
    await host.open();
    for (let n = 0; ; n++) {
      const { ok, raw } = await used(host);
      if (ok) return;
      console.error(raw);
      if (n === logins || !raw.includes(advice)) throw new Error("the tool cannot be used");
      await login(binary, config, dir);
    }
  } finally {
    await host?.close();
    process.stderr.write(host?.client.stderr ?? "");
    rmSync(dir, { recursive: true, force: true });
  }
}

main(process.argv.slice(2)).catch((err) => {
  console.error(err.stack);
  process.exitCode = 1;
});
