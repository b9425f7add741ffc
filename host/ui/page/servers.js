// The servers: state, restarts, latency, tokens of context.

import { announce, badge, block, busy, facts, fill, h, notice } from "./dom.js";
import { get, post } from "./api.js";
import { patch } from "./patch.js";
import { ago, away, count, duration, number, tokens } from "./format.js";

const kinds = { ready: "good", starting: "busy", asleep: "calm", disabled: "calm", failed: "bad", closed: "bad" };

export async function servers({ main, signal, live }) {
  let state = await get("state", {}, signal);
  const checking = new Set(); // names; "" for all
  const summary = h("p", { class: "summary" });
  const check = h("button", { type: "button", onclick: () => run("") }, "Check all");
  const list = h("ul", { class: "cards", "aria-label": "Servers" });
  const context = h("section", { class: "card context", "aria-labelledby": "context" });
  const disabled = h("p", { class: "disabled soft" });
  const notices = h("div");

  // run checks one server, or all.
  async function run(server) {
    if (checking.has(server) || checking.has("")) return;
    checking.add(server);
    draw();
    try {
      state = await post("check", { server }, signal);
      announce(verdict(state.servers.filter((s) => !server || s.name === server)));
    } catch (error) {
      if (!signal.aborted) announce(`The check failed: ${error.message}`);
    } finally {
      checking.delete(server);
      if (!signal.aborted) draw();
    }
  }

  function draw() {
    patch(summary, sum(state.servers));
    check.hidden = state.servers.length === 0;
    patch(check, checking.has("") ? "Checking …" : "Check all");
    busy(check, checking.has(""));
    patch(list, state.servers.filter((s) => s.state !== "disabled").map((s) => h("li", { class: "card server", dataset: { key: s.name }, "aria-label": s.name }, content(s, checking.has(s.name) || checking.has(""), run))));
    const off = state.servers.filter((s) => s.state === "disabled").map((s) => s.name);
    patch(disabled, off.length ? [h("strong", {}, "Disabled: "), off.join(", ")] : null);
    patch(context, costs(state));
    patch(notices, state.problems.map((p) => notice("warning", h("p", {}, p))),
      state.servers.length ? null : h("div", { class: "card hint" }, h("p", {}, h("strong", {}, "No server is configured.")), h("p", {}, "Add one with ", h("code", {}, "mcp-metatool add NAME -- COMMAND"), ", or take over those of your MCP host with ", h("code", {}, "mcp-metatool import"), ".")));
  }

  draw();
  fill(main, h("div", { class: "headline" }, h("h1", { tabindex: "-1" }, "Servers"), summary, check), notices, list, disabled, context);
  live.addEventListener("state", ({ detail }) => {
    if (checking.size > 0) return; // the check answers with the state
    state = detail;
    draw();
  }, { signal });
}

// verdict says in a sentence what a check has found.
function verdict(checked) {
  const failed = checked.filter((s) => s.check?.report.check === "failed");
  if (failed.length) return `Failed: ${failed.map((s) => s.name).join(", ")}.`;
  if (checked.length === 1 && checked[0].check?.report.latency) return `${checked[0].name} answers after ${duration(checked[0].check.report.latency)}.`;
  return "No problems found.";
}

function sum(all) {
  const by = new Map();
  for (const s of all) by.set(label(s), (by.get(label(s)) ?? 0) + 1);
  return [...by].map(([state, n]) => `${number(n)} ${state}`).join(", ");
}

function label(server) {
  return server.isolated ? "one for each session" : server.state;
}

function content(s, checking, run) {
  const report = s.check?.report;
  const asleep = s.state === "asleep";
  const verb = asleep ? "Start" : "Check";
  const button = h("button", { type: "button", class: "small", "aria-label": `${verb} ${s.name}`, "aria-disabled": checking ? "true" : null, onclick: () => run(s.name) }, checking ? "Checking …" : verb);
  const address = s.address && s.transport === "stdio" ? s.address : `${s.transport} ${s.address}`;
  return [
    h("div", { class: "card-head" },
      h("div", { class: "card-title" }, h("h2", {}, h("a", { href: `#/tools?server=${encodeURIComponent(s.name)}` }, s.name)), badge(kinds[s.state] ?? "calm", label(s))),
      s.isolated ? null : button),
    h("p", { class: "soft line parts" }, [address, [s.serverName, s.serverVersion].filter(Boolean).join(" "), s.protocol && `MCP ${s.protocol}`, s.restarts && count(s.restarts, "restart")].filter(Boolean).map((part) => h("span", {}, part))),
    s.isolated ? null : h("dl", { class: "numbers" },
      figure("tools", number(s.tools)), figure("tokens", tokens(s.tokens)),
      figure("latency", report?.latency ? duration(report.latency) : "–"), figure("start", s.startTime ? duration(s.startTime) : "–")),
    report?.check === "failed" && s.state !== "failed" ? notice("error", h("p", {}, `Check: ${report.error}`)) : null,
    report?.probe?.check === "ok" ? h("p", { class: "soft line" }, `probe ${report.probe.tool}: ${duration(report.probe.latency ?? 0)}`) : null,
    s.slowedSince ? notice("warning", h("p", {}, `It sends more than it is asked for, and has been read slowly for ${away(s.slowedSince)}.`)) : null,
    s.error ? failure(s) : null,
    h("details", { dataset: { key: "more" } }, h("summary", {}, "More"), facts([
      ["Since", s.since && ago(s.since)], ["Process", s.pid || ""], ["Listed for clients", `${count(s.listed, "tool")} of ${number(s.tools)}`],
      ["Resources", s.resources || s.templates ? `${number(s.resources)}, and ${count(s.templates, "template")}` : "0"], ["Prompts", number(s.prompts)],
      ["Protocol", s.agreed], ["Checked", s.check && ago(s.check.at)],
    ])),
  ];
}

// failure shows the last error of a server, as old or as current.
function failure(s) {
  const current = s.state === "failed" || s.state === "closed";
  return notice(current ? "error" : "calm",
    h("p", {}, current ? "" : "Earlier: ", s.error),
    s.restartAt && current ? h("p", {}, `It is started again ${ago(s.restartAt)}.`) : null,
    s.output ? h("details", { dataset: { key: "error" } }, h("summary", {}, "Its last output"), block(s.output, `Last output of ${s.name}`)) : null);
}

function figure(name, value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}

// costs shows what the lists of tools take of a model's context.
function costs(state) {
  const rows = state.servers.filter((s) => s.tokens > 0).map((s) => [s.name, s.listed, s.tokens]);
  if (state.saved.tools) rows.push(["saved tools", state.saved.tools, state.saved.tokens]);
  if (state.own.tools) rows.push(["built-in tools", state.own.tools, state.own.tokens]);
  rows.sort((a, b) => b[2] - a[2]);
  const total = rows.reduce((sum, row) => sum + row[2], 0);
  const most = Math.max(1, ...rows.map((row) => row[2]));
  return [
    h("h2", { id: "context" }, "Context"),
    h("p", { class: "soft" }, `The tools that clients see take about ${tokens(total).slice(2)} tokens of a model’s context (estimated: four bytes a token).`),
    h("table", { class: "bars" }, h("thead", { class: "unseen" }, h("tr", {}, ["From", "Tools", "Tokens", "Share"].map((t) => h("th", { scope: "col" }, t)))),
      h("tbody", {}, rows.map(([name, tools, size]) => h("tr", {},
        h("th", { scope: "row" }, name), h("td", { class: "number" }, count(tools, "tool")), h("td", { class: "number" }, tokens(size)),
        h("td", { class: "bar-cell" }, h("span", { class: "share", style: { width: `${(100 * size / most).toFixed(1)}%` } }), h("span", { class: "unseen" }, `${Math.round(100 * size / Math.max(1, total))} %`)))))),
  ];
}
