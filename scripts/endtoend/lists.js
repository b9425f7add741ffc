// The answer to initialize, and tool lists compared with those of the servers.

import { replace, tokens } from "./rawjson.js";
import { assert, equal, until } from "./report.js";

export const prefix = (server) => `${server}__`;

// builtins are the built-in tools.
export const builtins = ["save_tool", "list_saved_tools", "show_saved_tool", "delete_saved_tool", "eval_starlark", "search_tools", "describe_tool", "health_check", "test_tool", "plan_tool", "apply_plan", "list_runs", "show_run"];

export async function lists({ setup, report, main, direct }) {
  await report.check("initialize is answered while three servers start", async () => {
    const { value } = await main.initialize();
    equal(value.result.protocolVersion, "2025-11-25", "protocol version");
    assert(value.result.instructions, "no instructions");
    assert(value.result.capabilities.tools?.listChanged === true, "tools.listChanged is not offered");
    assert(main.initializeTime < 2000, `took ${main.initializeTime} ms`);
    return `${main.initializeTime.toFixed(0)} ms from the start of the process, nothing cached`;
  });
  await report.check("first tools/list has all servers", async () => {
    const names = (await main.definitions()).map((d) => d.name);
    for (const server of Object.keys(direct)) {
      assert(names.some((n) => n.startsWith(prefix(server))), `no tool of ${server} in ${names}`);
    }
    return `${names.length} tools`;
  });
  await Promise.all(Object.values(direct).map((client) => client.initialize()));
  // The server announces one more tool once it is initialized.
  await direct.everything.wait("list_changed of server-everything", (m) => m.method === "notifications/tools/list_changed");

  for (const [server, client] of Object.entries(direct)) {
    await report.check(`definitions of ${server} are those of the server, token for token`, async () => {
      const want = await client.definitions();
      assert(want.length > 5, `the server itself lists only ${want.length} tools`);
      const of = async () => (await main.definitions()).filter((d) => d.name.startsWith(prefix(server)));
      const got = await until(10_000, `${want.length} tools of ${server}`, async () => {
        const list = await of();
        return list.length === want.length && list;
      });
      for (const { name, raw } of want) {
        const here = got.find((d) => d.name === prefix(server) + name);
        assert(here, `${name} is missing`);
        equal(tokens(here.raw), tokens(replace(raw, "name", JSON.stringify(prefix(server) + name))), name);
      }
      return `${want.length} tools, ${want.reduce((n, d) => n + d.raw.length, 0)} bytes`;
    });
  }
  await report.check("only the servers' tools and the built-in ones are listed, always in the same order", async () => {
    const [first, second] = [await main.definitions(), await main.definitions()];
    equal(first.map((d) => d.name).join(), second.map((d) => d.name).join(), "order");
    const own = first.map((d) => d.name).filter((n) => !Object.keys(direct).some((s) => n.startsWith(prefix(s))));
    equal(own.sort().join(), [...builtins].sort().join(), "other tools");
  });
  await report.check("older and unknown protocol versions are negotiated", async () => {
    for (const [asked, given] of [["2024-11-05", "2024-11-05"], ["2025-03-26", "2025-03-26"], ["2025-06-18", "2025-06-18"], ["1999-01-01", "2025-11-25"]]) {
      const client = setup.serve(setup.configure("negotiate", {}));
      try {
        equal((await client.initialize(asked)).value.result.protocolVersion, given, `answer to ${asked}`);
        equal(JSON.stringify((await client.request("ping")).value.result), "{}", "ping");
        equal((await client.definitions()).length, builtins.length, "tools without servers");
      } finally {
        equal((await client.close()).code, 0, "exit code");
      }
    }
  });
}
