// The processes of one run, found by a mark in their environment. Unlike parent and
// group ids, it survives the death of a parent and setsid. Linux only.

import { readFileSync, readdirSync } from "node:fs";

export const markName = "MCP_METATOOL_E2E";

// marked lists the running processes with the mark, as {pid, parent, command, upstream}.
export function marked(mark) {
  const found = [];
  for (const pid of readdirSync("/proc")) {
    if (!/^\d+$/.test(pid)) continue;
    const env = read(`/proc/${pid}/environ`).split("\0");
    if (!env.includes(`${markName}=${mark}`)) continue;
    const status = read(`/proc/${pid}/status`);
    if (/^State:\s+[ZX]/m.test(status)) continue;
    found.push({
      pid: Number(pid),
      parent: parentOf(pid),
      command: read(`/proc/${pid}/cmdline`).split("\0").join(" ").trim(),
      upstream: env.find((e) => e.startsWith("E2E_UPSTREAM="))?.slice("E2E_UPSTREAM=".length),
    });
  }
  return found;
}

// parentOf returns the parent of a process. It skips the supervisor process of a
// server, which is recognised by its name and does not have the environment.
function parentOf(pid) {
  const parent = Number(/^PPid:\s+(\d+)/m.exec(read(`/proc/${pid}/status`))?.[1]);
  return read(`/proc/${parent}/cmdline`).startsWith("mcp-metatool-supervisor") ? parentOf(parent) : parent;
}

export const listed = (processes) => processes.map((p) => `${p.pid} ${p.command.slice(0, 60)}`).join("; ");

// cpuTime returns the processor time of a process, in clock ticks (10 ms).
export function cpuTime(pid) {
  const stat = read(`/proc/${pid}/stat`);
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return Number(fields[11]) + Number(fields[12]);
}

function read(path) {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return ""; // it has ended, or is another user's
  }
}
