// The runs of the journal, live, and one run as a waterfall.

import { badge, fill, h, notice, problem } from "./dom.js";
import { get } from "./api.js";
import { count, duration, number, time } from "./format.js";
import { waterfall } from "./waterfall.js";

const outcomes = ["ok", "error", "asks", "unfinished", "validation", "runtime", "tool", "timeout", "resource", "cancelled", "permission", "internal"];

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
  const rows = new Map(); // by id
  const body = h("tbody");
  let oldest = page.runs.at(-1)?.id;
  const table = h("table", { class: "runs" }, h("caption", { class: "unseen" }, "Runs, the newest first"),
    h("thead", {}, h("tr", {}, ["Started", "Tool", "Outcome", "Took", "Calls", "Message"].map((t) => h("th", { scope: "col", class: ["Took", "Calls"].includes(t) ? "number" : null }, t)))), body);
  const empty = h("p", { class: "hint" }, page.recorded ? "There are no such runs. Runs of saved tools and scripts appear here." : "Runs are not recorded: the configuration disables the journal.");
  const more = h("button", { type: "button", hidden: !page.more, onclick: older }, "Older runs");

  function put(run, first, fresh) {
    const old = rows.get(run.id);
    const row = rowOf(run, fresh);
    rows.set(run.id, row);
    if (old) {
      const focused = old.contains(document.activeElement);
      old.replaceWith(row);
      if (focused) row.querySelector("a").focus();
    } else if (first) body.prepend(row);
    else body.append(row);
    empty.hidden = true;
    table.hidden = false;
  }

  async function older() {
    more.disabled = true;
    try {
      const next = await get("runs", { tool, outcome, before: oldest }, signal);
      for (const run of next.runs) put(run, false, false);
      oldest = next.runs.at(-1)?.id ?? oldest;
      more.hidden = !next.more;
    } finally {
      more.disabled = false;
    }
  }

  const fits = (run) => (!tool || run.tool === tool) && (!outcome || run.outcome === outcome || outcome === "error" && run.done && !["ok", "asks"].includes(run.outcome));
  table.hidden = page.runs.length === 0;
  for (const run of page.runs) put(run, false, false);
  live.addEventListener("run", ({ detail }) => {
    if (fits(detail)) put(detail, true, true);
    else if (rows.has(detail.id)) { // it no longer fits
      rows.get(detail.id).remove();
      rows.delete(detail.id);
    }
  }, { signal });
  let connected = false;
  live.addEventListener("ready", async () => { // after a gap in the stream
    if (connected) for (const run of (await get("runs", { tool, outcome }, signal)).runs.reverse()) put(run, true, false);
    connected = true;
  }, { signal });

  fill(main,
    h("div", { class: "headline" }, h("h1", { tabindex: "-1" }, "Runs")),
    filters(tool, outcome),
    page.damaged ? notice("warning", h("p", {}, `${count(page.damaged, "line")} of the journal cannot be read.`)) : null,
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Runs" }, table), empty, h("p", {}, more));
  empty.hidden = page.runs.length > 0;
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
  return h("tr", { class: fresh ? "fresh" : null },
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
      const open = new Set([...main.querySelectorAll("details[open]")].map((d) => d.dataset.key));
      const focused = main.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
      fill(main, page(run, open));
      if (focused) main.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
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

function page(run, open) {
  const { view } = run;
  return [
    h("a", { class: "back always", href: "#/runs" }, "← All runs"),
    h("div", { class: "headline" }, h("h1", { tabindex: "-1" }, run.tool || "Script"), outcomeBadge(run), run.done ? h("p", { class: "summary" }, `after ${duration(run.duration)}`) : null),
    waterfall(run, view, open),
  ];
}
