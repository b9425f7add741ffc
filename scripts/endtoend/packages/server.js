// server.json: the registry's schema accepts it, it describes what was made, and our own add
// starts the package that it describes.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join } from "node:path";
import { assert, equal } from "../report.js";

export async function serverDocument({ report, place, schemas }) {
  const path = join(place.packages, "server.json");
  const document = JSON.parse(readFileSync(path));
  await report.check("the schema of the registry accepts it", async () => {
    const require = createRequire(join(place.modules, "x.js"));
    const ajv = new (require("ajv"))({ strict: false, allErrors: true });
    require("ajv-formats")(ajv);
    const version = document.$schema.split("/").at(-2);
    const schema = JSON.parse(readFileSync(join(schemas, `${version}.json`)));
    equal(schema.$id, document.$schema, "the address of the schema");
    const validate = ajv.compile(schema);
    assert(validate(document), ajv.errorsText(validate.errors));
    assert(!validate({ ...document, version: undefined, packages: [{}] }), "it accepts anything");
    return version;
  });
  await report.check("it has the digests of the bundles, and the name that the npm package has", async () => {
    for (const { registryType, identifier, fileSha256 } of document.packages) {
      if (registryType !== "mcpb") continue;
      const data = readFileSync(join(place.packages, basename(identifier)));
      equal(fileSha256, createHash("sha256").update(data).digest("hex"), basename(identifier));
    }
    const { mcpName } = JSON.parse(await place.succeed("npm", ["view", `mcp-metatool@${document.version}`, "--json"]));
    equal(mcpName, document.name, "mcpName");
  });
  const env = place.env(undefined, { MCP_METATOOL_CONFIG: join(place.dir, "added.toml"), MCP_METATOOL_DIR: join(place.dir, "added") });
  await report.check("add --dry-run shows what it would write", async () => {
    const shown = await place.succeed(place.binary, ["add", "inner", path, "--dry-run"], { env });
    assert(shown.includes(`npx -y mcp-metatool@${document.version}`), shown);
    assert(shown.includes("[upstream.inner]"), shown);
  });
  await report.check("add --yes starts the package with npx", async () => {
    const shown = await place.succeed(place.binary, ["add", "inner", path, "--yes"], { env });
    assert(/inner works: .*tools: \d+/.test(shown), shown);
    await place.gone();
  });
}
