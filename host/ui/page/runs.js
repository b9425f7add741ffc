// The runs of the journal, live, and one run as a waterfall.

import { announce, badge, busy, fill, h, notice, problem } from "./dom.js";
import { get } from "./api.js";
import { patch } from "./patch.js";
import { count, duration, number, time } from "./format.js";
import { waterfall } from "./waterfall.js";

const outcomes = ["ok", "error", "asks", "unfinished", "validation", "runtime", "tool", "timeout", "resource", "cancelled", "permission", "internal"];

const limit = 200; // runs in the list before the oldest leave it; more if they were asked for

export async function runs(view) {
  if (view.rest.length > 0) await one(view);
  else await list(view);
}

export function outcomeBadge(run) {
  if (!run.done) return badge("busy", "running, or lost");
  if (run.outcome === "ok") return badge("good", "ok");
  if (run.outcome === "asks") return badge("busy", "asks");
  return badge("bad", run.outcome);
}

async function list({ main, query, signal, live }) {
  const tool = query.get("tool") ?? "";
  const outcome = query.get("outcome") ?? "";
  const page = await get("runs", { tool, outcome }, signal);
  let most = limit; // runs that are shown
  const shown = new Map(page.runs.map((run) => [run.id, run])); // by id
  const fresh = new Set(); // ids of runs that have begun or ended while the view is open
  let { more, damaged } = page;
  const body = h("tbody");
  const table = h("table", { class: "runs" }, h("caption", { class: "unseen" }, "Runs, the newest first"),
    h("thead", {}, h("tr", {}, ["Started", "Tool", "Outcome", "Took", "Calls", "Message"].map((t) => h("th", { scope: "col", class: ["Took", "Calls"].includes(t) ? "number" : null }, t)))), body);
  const scroll = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Runs" }, table);
  const empty = h("div", { class: "card hint" }, h("p", {}, page.recorded ? (tool || outcome ? "No run fits this filter." : "There are no runs yet. Runs of saved tools and scripts appear here as they begin.") : "Runs are not recorded: the configuration disables the journal."));
  const older = h("button", { type: "button", onclick: addOlder }, "Older runs");
  const notes = h("div");

  function draw() {
    const runs = [...shown.values()].sort((a, b) => (a.id < b.id ? 1 : -1));
    if (runs.length > most) { // those are found with "Older runs"
      for (const run of runs.splice(most)) shown.delete(run.id);
      more = true;
    }
    scroll.hidden = runs.length === 0;
    empty.hidden = runs.length > 0;
    older.hidden = !more;
    patch(notes, damaged ? notice("warning", h("p", {}, `${count(damaged, "line")} of the journal cannot be read.`)) : null);
    patch(body, runs.map((run) => rowOf(run, fresh.has(run.id))));
  }

  async function addOlder() {
    if (older.getAttribute("aria-disabled")) return;
    busy(older, true);
    const before = [...shown.keys()].sort()[0];
    try {
      const next = await get("runs", { tool, outcome, before }, signal);
      most += next.runs.length;
      for (const run of next.runs) shown.set(run.id, run);
      more = next.more;
      draw();
      announce(`${count(next.runs.length, "more run")}.`);
      if (!more) body.querySelector(`[data-key="${CSS.escape(next.runs[0]?.id ?? "")}"] a`)?.focus();
    } catch (error) {
      if (!signal.aborted) announce(error.message);
    } finally {
      busy(older, false);
    }
  }

  const fits = (run) => (!tool || run.tool === tool) && (!outcome || run.outcome === outcome || outcome === "error" && run.done && !["ok", "asks"].includes(run.outcome));
  live.addEventListener("run", ({ detail }) => {
    if (fits(detail)) {
      shown.set(detail.id, detail);
      fresh.add(detail.id);
    } else shown.delete(detail.id); // it no longer fits
    draw();
  }, { signal });
  live.addEventListener("ready", async () => {
    try {
      const now = await get("runs", { tool, outcome }, signal);
      for (const run of now.runs) shown.set(run.id, run);
      if (now.runs.length === 0) shown.clear();
      damaged = now.damaged;
      draw();
    } catch {
      // the header says that there is no connection
    }
  }, { signal });

  draw();
  fill(main, h("div", { class: "headline" }, h("h1", { tabindex: "-1" }, "Runs")), filters(tool, outcome), notes, scroll, empty, h("p", {}, older));
}

function filters(tool, outcome) {
  const byTool = h("input", { id: "by-tool", type: "search", value: tool, autocomplete: "off", spellcheck: "false" });
  const byOutcome = h("select", { id: "by-outcome" }, h("option", { value: "" }, "any"), outcomes.map((o) => h("option", { value: o }, o === "error" ? "error (any)" : o)));
  byOutcome.value = outcome;
  const go = () => {
    const query = new URLSearchParams([["tool", byTool.value.trim()], ["outcome", byOutcome.value]].filter(([, v]) => v));
    location.hash = query.size ? `#/runs?${query}` : "#/runs";
  };
  byOutcome.addEventListener("change", go);
  return h("form", { class: "filters", role: "search", "aria-label": "Runs", onsubmit: (event) => { event.preventDefault(); go(); } },
    h("label", { for: "by-tool" }, "Tool"), byTool, h("label", { for: "by-outcome" }, "Outcome"), byOutcome, h("button", {}, "Show"));
}

function rowOf(run, fresh) {
  return h("tr", { class: fresh ? "fresh" : null, dataset: { key: run.id } },
    h("td", { class: "nowrap", "data-label": "Started" }, h("time", { datetime: run.start }, time(run.start))),
    h("th", { scope: "row" }, h("a", { href: `#/runs/${run.id}` }, run.tool || "(script)")),
    h("td", { "data-label": "Outcome" }, outcomeBadge(run)),
    h("td", { class: "number", "data-label": "Took" }, run.done ? duration(run.duration) : "–"),
    h("td", { class: "number", "data-label": "Calls" }, number(run.calls)),
    h("td", { class: "message" }, run.message ? run.message.slice(0, 200) : run.continues ? "continues an earlier run" : ""));
}

// one shows a run. While it goes on, it is shown again with each of its events.
async function one({ main, rest, signal, live, title }) {
  const [wanted] = rest;
  let busy = false;
  let again = false;
  async function draw() {
    if (busy) {
      again = true;
      return undefined;
    }
    busy = true;
    try {
      const run = await get(`runs/${encodeURIComponent(wanted)}`, {}, signal);
      patch(main, page(run));
      return run;
    } finally {
      busy = false;
      if (again && !signal.aborted) {
        again = false;
        draw().catch(() => {});
      }
    }
  }
  fill(main);
  try {
    const run = await draw();
    title(`Run of ${run.tool || "a script"}`);
    live.addEventListener("run", ({ detail }) => { if (detail.id === run.id) draw().catch(() => {}); }, { signal });
    live.addEventListener("ready", () => { draw().catch(() => {}); }, { signal });
  } catch (error) {
    if (signal.aborted || error.status === 401) throw error;
    fill(main, h("a", { class: "back", href: "#/runs" }, "← All runs"), h("h1", { tabindex: "-1" }, "Run"), problem(error));
  }
}

function page(run) {
  const { view } = run;
  return [
    h("a", { class: "back always", href: "#/runs" }, "← All runs"),
    h("div", { class: "headline" }, h("h1", { tabindex: "-1" }, run.tool || "Script"), outcomeBadge(run), run.done ? h("p", { class: "summary" }, `after ${duration(run.duration)}`) : null),
    waterfall(run, view),
  ];
}
