// The npm commands of docs/upgrade.md, with an earlier version of the packages in the place of
// the version that the page names, and what the page says of npx.

import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { assert, equal, none } from "../report.js";

const page = fileURLToPath(new URL("../../../docs/upgrade.md", import.meta.url));
const named = "0.1.0"; // the version in the page
const earlier = "0.0.1-earlier"; // that scripts/packages makes

export async function upgrade({ report, place }) {
  const prefix = join(place.dir, "global");
  const env = place.env(undefined, { npm_config_prefix: prefix, npm_config_cache: join(place.dir, "upgrade-cache") });
  const launcher = join(prefix, "lib", "node_modules", "mcp-metatool");
  const commands = blocks(readFileSync(page, "utf8")).filter((line) => line.startsWith("npm "));
  equal(commands.length, 4, "npm commands in docs/upgrade.md");
  const data = () => readdirSync(join(place.home, ".mcp-metatool"), { recursive: true }).sort().join("\n");
  const before = data();
  assert(before.includes("config.toml"), before);
  for (const command of commands) {
    await report.check(command, async () => {
      await place.succeed("sh", ["-c", command.replaceAll(named, earlier)], { env });
      if (command.startsWith("npm uninstall")) {
        none("left over", readdirSync(prefix, { recursive: true, withFileTypes: true }).filter((entry) => !entry.isDirectory()).map((entry) => entry.name));
      } else {
        const want = command.includes("@latest") ? place.version : earlier;
        for (const folder of [launcher, join(launcher, "node_modules", "@mcp-metatool", place.node)]) {
          equal(JSON.parse(readFileSync(join(folder, "package.json"))).version, want, folder);
        }
        equal(await place.succeed(join(prefix, "bin", "mcp-metatool"), ["version"], { env }), await place.succeed(place.binary, ["version"]), "version");
      }
      equal(data(), before, "files of the user");
    });
  }
  await report.check("npx starts the version that is named, and asks for the newest one each time", async () => {
    for (const version of [earlier, "latest", "latest"]) {
      const from = place.registry.requests.length;
      await place.succeed("npx", ["-y", `mcp-metatool@${version}`, "version"], { env });
      if (version === "latest") assert(place.registry.requests.slice(from).includes("/mcp-metatool"), "the registry was not asked");
    }
    const cached = readdirSync(join(env.npm_config_cache, "_npx")).map((name) => join(env.npm_config_cache, "_npx", name, "node_modules", "mcp-metatool", "package.json"));
    const versions = cached.filter((path) => existsSync(path)).map((path) => JSON.parse(readFileSync(path)).version);
    equal(versions.sort().join(" "), [earlier, place.version].sort().join(" "), "versions that npx has installed");
  });
}

// blocks returns the lines of the blocks for a shell.
function blocks(text) {
  return [...text.matchAll(/^```sh\n(.*?)^```$/gms)].flatMap(([, body]) => body.trim().split("\n"));
}
