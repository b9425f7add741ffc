// The end of the binary: every process it started must end with it.

import { listed, marked } from "./processes.js";
import { assert, equal, until, within } from "./report.js";

const limit = 5000; // ms

// ending gets the clients of the instances that are still running.
export async function ending(context, broken) {
  const { report, main } = context;
  await report.check("end of input: exit code 0, every process gone within 5 s", async () => {
    // A pending call must not delay it.
    main.start("tools/call", '{"name":"everything__trigger-long-running-operation","arguments":{"duration":30}}');
    await main.request("ping");
    return gone(context, main, "main", () => main.child.stdin.end());
  });
  await report.check("SIGTERM beside servers that have failed: every process gone within 5 s", () =>
    gone(context, broken, "broken", () => broken.child.kill("SIGTERM")));
  for (const [what, end] of [["end of input", (c) => c.child.stdin.end()], ["SIGTERM", (c) => c.child.kill("SIGTERM")]]) {
    await report.check(`${what} while servers start, one of which ignores signals: every process gone within 5 s`, async () => {
      const { setup } = context;
      const client = setup.serve(setup.configure("early", { ...setup.stubborn(), ...setup.upstreams("early") }));
      await client.initialize();
      await until(5000, "the servers are started", () => of(context, client).length > 5);
      return gone(context, client, "early", () => end(client));
    });
  }
  await report.check("no process of this run of e2e is left", async () => {
    const rest = marked(context.setup.mark);
    equal(listed(rest), "", "left over");
  });
}

// of lists the processes of one of several running instances: the binary and all
// its descendants.
function of({ setup }, client) {
  const group = new Set([client.child.pid]);
  const all = marked(setup.mark);
  for (let grown = true; grown; ) {
    grown = false;
    for (const p of all) {
      if (!group.has(p.pid) && group.has(p.parent)) grown = !!group.add(p.pid);
    }
  }
  return all.filter((p) => group.has(p.pid));
}

// gone ends an instance of the binary, given as a client or a Listening, and waits
// until all its processes have ended.
export async function gone(context, client, name, end) {
  const before = of(context, client);
  assert(before.length > 3, `only ${listed(before)} to begin with`);
  const started = performance.now();
  end();
  const { code, signal } = await within(limit, "exit of the binary", client.exited);
  const pids = new Set(before.map((p) => p.pid));
  const left = () => marked(context.setup.mark).filter((p) => pids.has(p.pid));
  await until(Math.max(0, limit - (performance.now() - started)), "the processes are gone", () => left().length === 0)
    .catch((err) => {
      throw new Error(`${err.message}: ${listed(left())}`);
    });
  equal(`${signal ?? ""}${code}`, "0", `exit of ${name}`);
  return `${before.length} processes, ${Math.round(performance.now() - started)} ms`;
}

export async function outputs({ setup, report }) {
  const served = setup.clients.filter((c) => c.viaBinary);
  await report.check("stdout had only JSON-RPC messages", async () => {
    await Promise.all([...served, ...setup.listeners].map((c) => within(limit, "end of output", c.closed)));
    for (const client of served) {
      equal(client.noise.join("\n"), "", "other lines");
      equal(client.unfinished, "", "unfinished line");
    }
    return `${served.reduce((n, c) => n + c.messages.length, 0)} messages of ${served.length} processes`;
  });
  await report.check("the log has what servers write to stderr, and no secret", async () => {
    const log = served.map((c) => c.stderr).join("");
    assert(/memory.*started with .*--token/.test(log), `the line with the secret never came to the log: ${log.slice(0, 2000)}`);
    for (const text of [log, ...setup.listeners.map((l) => l.output), ...setup.outputs]) {
      const at = text.indexOf(setup.secret);
      assert(at < 0, `the secret is in: ${text.slice(Math.max(0, at - 200), at + 20)}`);
    }
    return `${log.length} bytes of log`;
  });
}
