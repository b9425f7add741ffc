// An npm registry on this machine with the tarballs of some folders.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

// Registry is the server. Its url ends without a slash.
export class Registry {
  #documents = new Map(); // by the name of the package: what npm asks for
  #files = new Map(); // by path: a tarball
  #server;
  requests = []; // paths, in the order of arrival

  // of starts a registry; the newest version of each package is that of the last folder.
  static async of(...folders) {
    const registry = new Registry();
    registry.#server = createServer((request, response) => registry.#answer(request, response));
    await new Promise((resolve) => registry.#server.listen(0, "127.0.0.1", resolve));
    registry.url = `http://127.0.0.1:${registry.#server.address().port}`;
    for (const folder of folders) {
      for (const name of tarballs(folder)) registry.#add(name, readFileSync(join(folder, name)));
    }
    return registry;
  }

  #add(file, data) {
    const manifest = packed(data);
    const { name, version } = manifest;
    const document = this.#documents.get(name) ?? { name, versions: {}, "dist-tags": {} };
    this.#documents.set(name, document);
    this.#files.set(`/-/${file}`, data);
    document["dist-tags"].latest = version;
    document.versions[version] = {
      ...manifest,
      dist: { tarball: `${this.url}/-/${file}`, integrity: `sha512-${createHash("sha512").update(data).digest("base64")}` },
    };
  }

  #answer({ url, method }, response) {
    const path = decodeURIComponent(new URL(url, this.url).pathname);
    this.requests.push(path);
    const document = this.#documents.get(path.slice(1));
    const data = method === "GET" && (this.#files.get(path) ?? (document && JSON.stringify(document)));
    response.writeHead(data ? 200 : 404, { "content-type": document ? "application/json" : "application/octet-stream" });
    response.end(data || "{}");
  }

  close() {
    this.#server.closeAllConnections();
    return new Promise((resolve) => this.#server.close(resolve));
  }
}

// tarballs lists the packages of a folder in the order in which they must be published.
export const tarballs = (folder) => readFileSync(join(folder, "publish-order"), "utf8").trim().split("\n");

// packed returns the package.json of a tarball.
function packed(data) {
  return JSON.parse(execFileSync("tar", ["-xzO", "package/package.json"], { input: data, maxBuffer: 1 << 20, stdio: ["pipe", "pipe", "ignore"] }));
}

// contents lists the files of a tarball, with their modes as tar prints them.
export function contents(path) {
  const lines = execFileSync("tar", ["-tvzf", path], { encoding: "utf8" }).trim().split("\n");
  return lines.map((line) => `${line.slice(0, 10)} ${line.split(/\s+/).slice(5).join(" ").replace("package/", "")}`).sort();
}
