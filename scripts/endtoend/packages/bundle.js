// The bundle of this platform: the tool of MCPB validates and unpacks it, and it is started as
// a desktop host starts it.

import { mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { assert, equal } from "../report.js";

export async function bundles({ report, place, tool }) {
  const { getMcpConfigForManifest } = await import(createRequire(join(tool, "x.js")).resolve("@anthropic-ai/mcpb"));
  const mcpb = (...args) => place.succeed(join(tool, ".bin", "mcpb"), args);
  const folder = join(place.dir, "bundle");
  const unpacked = await report.check("the tool of MCPB unpacks and validates all bundles", async () => {
    const names = readdirSync(place.packages).filter((name) => name.endsWith(".mcpb"));
    equal(names.length, 5, "number of bundles");
    await Promise.all(names.map(async (name) => {
      const to = name.includes(place.node) ? folder : join(place.dir, name);
      await mcpb("unpack", join(place.packages, name), to);
      await mcpb("validate", join(to, "manifest.json"));
      const { server, compatibility } = JSON.parse(readFileSync(join(to, "manifest.json")));
      assert(statSync(join(to, server.entry_point)).mode & 0o111, `${name}: the program cannot be executed`);
      equal(compatibility.platforms.join(), name.split("-").at(-2), `${name}: platform`);
    }));
    return names.map((name) => `${name} ${(statSync(join(place.packages, name)).size / 1e6).toFixed(2)} MB`).join(", ");
  });
  if (!unpacked) return;

  // start starts the server with what a person has entered, as a desktop host does: with the
  // PATH of the system, and in the root directory.
  const start = async (userConfig, home) => {
    const manifest = JSON.parse(readFileSync(join(folder, "manifest.json")));
    const config = await getMcpConfigForManifest({ manifest, extensionPath: folder, systemDirs: { HOME: home }, userConfig, pathSeparator: "/" });
    const env = place.env(undefined, { PATH: "/usr/bin:/bin", HOME: home, ...config.env });
    const client = await place.open(config.command, config.args, { env, cwd: "/" });
    const secret = await (client.tools.includes("harbour__list_ships") ? client.call("harbour__list_ships") : undefined);
    equal((await client.close()).code, 0, "exit code");
    equal(client.noise.join("\n") + client.unfinished, "", "other output");
    await place.gone();
    return { tools: client.tools, answer: secret?.raw, time: `${Math.round(client.initializeTime)} ms to the answer to initialize` };
  };
  await report.check("nothing entered: the configuration in the home directory", async () => {
    const { tools, time } = await start({}, place.home);
    assert(tools.includes("harbour__list_ships"), `the tools are ${tools}`);
    return time;
  });
  await report.check("nothing entered, and no configuration", async () => {
    const empty = join(place.dir, "empty");
    mkdirSync(empty);
    const { tools } = await start({}, empty);
    assert(!tools.some((name) => name.startsWith("harbour")), `the tools are ${tools}`);
  });
  await report.check("a file and a secret are entered", async () => {
    const file = join(place.dir, "bundle.toml");
    const seen = join(place.dir, "seen");
    writeFileSync(file, `[upstream.harbour]\ncommand = "sh"\nargs = ["-c", 'printf %s "$TOKEN" > ${seen}; exec ${place.binary} demo-upstream harbour']\nenv = { TOKEN = "\${MCP_METATOOL_SECRET}" }\n`);
    const { answer } = await start({ config: file, secret: "entered-by-a-person" }, join(place.dir, "empty"));
    assert(answer?.includes("result"), `the answer is ${answer}`);
    equal(readFileSync(seen, "utf8"), "entered-by-a-person", "the secret that the server got");
  });
}
