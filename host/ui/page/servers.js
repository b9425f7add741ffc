// The servers: state, restarts, latency, tokens of context.

import { announce, badge, block, facts, fill, h, notice } from "./dom.js";
import { get, post } from "./api.js";
import { ago, away, count, duration, number } from "./format.js";

const period = 3000; // ms between two looks at the state

const kinds = { ready: "good", starting: "busy", asleep: "calm", disabled: "calm", failed: "bad", closed: "bad" };

export async function servers({ main, signal }) {
  let state = await get("state", {}, signal);
  const summary = h("p", { class: "summary" });
  const list = h("ul", { class: "cards", "aria-label": "Servers" });
  const context = h("section", { class: "card context", "aria-labelledby": "context" });
  const problems = h("div");
  const check = h("button", { type: "button", onclick: () => run("", check) }, "Check all");
  const cards = new Map(); // by name

  // run checks one server, or all.
  async function run(server, button) {
    const label = button.textContent;
    button.disabled = true;
    fill(button, "Checking …");
    try {
      state = await post("check", { server }, signal);
      const failed = state.servers.filter((s) => s.check?.report.check === "failed" && (!server || s.name === server));
      announce(failed.length ? `Failed: ${failed.map((s) => s.name).join(", ")}` : "No problems found.");
      draw();
    } catch (error) {
      if (!signal.aborted) announce(error.message);
    } finally {
      button.disabled = false;
      fill(button, label);
    }
  }

  function draw() {
    fill(summary, sum(state.servers));
    check.hidden = state.servers.length === 0;
    for (const server of state.servers) {
      const text = JSON.stringify(server);
      let card = cards.get(server.name);
      if (!card) {
        card = { text: "", item: h("li", { class: "card server", "aria-labelledby": `server-${cards.size}` }), id: `server-${cards.size}` };
        cards.set(server.name, card);
        list.append(card.item);
      }
      if (card.text === text || card.item.contains(document.activeElement) && document.activeElement.disabled) continue;
      card.text = text;
      redraw(card.item, () => content(server, card.id, run));
    }
    for (const [name, card] of cards) {
      if (state.servers.some((s) => s.name === name)) continue;
      card.item.remove();
      cards.delete(name);
    }
    fill(context, costs(state));
    fill(problems, state.problems.map((p) => notice("warning", h("p", {}, p))));
  }

  draw();
  const none = state.servers.length ? null : notice("calm", h("p", {}, "No server is configured. Add one to ", h("code", {}, state.config || "config.toml"), "."));
  fill(main, h("div", { class: "headline" }, h("h1", { tabindex: "-1" }, "Servers"), summary, check), none, problems, list, context);

  const timer = setInterval(async () => {
    if (document.hidden) return;
    try {
      state = await get("state", {}, signal);
      draw();
    } catch {
      // the header says that there is no connection
    }
  }, period);
  signal.addEventListener("abort", () => clearInterval(timer));
}

// redraw replaces the content of an element and keeps the focus and what is open.
function redraw(element, make) {
  const focused = element.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const open = [...element.querySelectorAll("details[open]")].map((d) => d.dataset.key);
  fill(element, make());
  for (const key of open) element.querySelector(`details[data-key="${key}"]`)?.setAttribute("open", "");
  if (focused) element.querySelector(`[data-key="${focused}"]`)?.focus();
}

function sum(all) {
  const by = new Map();
  for (const s of all) by.set(label(s), (by.get(label(s)) ?? 0) + 1);
  return [...by].map(([state, n]) => `${number(n)} ${state}`).join(", ");
}

function label(server) {
  return server.isolated ? "one for each session" : server.state;
}

function content(s, heading, run) {
  const report = s.check?.report;
  const asleep = s.state === "asleep";
  const button = h("button", { type: "button", class: "small", dataset: { key: "check" }, "aria-label": `${asleep ? "Start" : "Check"} ${s.name}`, onclick: () => run(s.name, button) }, asleep ? "Start" : "Check");
  const address = s.address && s.transport === "stdio" ? s.address : `${s.transport} ${s.address}`;
  return [
    h("div", { class: "card-head" },
      h("h2", { id: heading }, h("a", { href: `#/tools?server=${encodeURIComponent(s.name)}` }, s.name)),
      badge(kinds[s.state] ?? "calm", label(s)),
      s.isolated || s.state === "disabled" ? null : button),
    h("p", { class: "soft line parts" }, [address, [s.serverName, s.serverVersion].filter(Boolean).join(" "), s.protocol && `MCP ${s.protocol}`, s.restarts && count(s.restarts, "restart")].filter(Boolean).map((part) => h("span", {}, part))),
    s.isolated || s.state === "disabled" ? null : h("dl", { class: "numbers" },
      figure("tools", number(s.tools)), figure("tokens", `≈ ${number(s.tokens)}`),
      figure("latency", report?.latency ? duration(report.latency) : "–"), figure("start", s.startTime ? duration(s.startTime) : "–")),
    report?.check === "failed" && s.state !== "failed" ? notice("error", h("p", {}, `Check: ${report.error}`)) : null,
    report?.probe?.check === "ok" ? h("p", { class: "soft line" }, `probe ${report.probe.tool}: ${duration(report.probe.latency ?? 0)}`) : null,
    s.slowedSince ? notice("warning", h("p", {}, `It sends more than it is asked for, and has been read slowly for ${away(s.slowedSince)}.`)) : null,
    s.error ? failure(s) : null,
    s.state === "disabled" ? null : h("details", { dataset: { key: "more" } }, h("summary", {}, "More"), facts([
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
    h("p", { class: "soft" }, `The tools that clients see take about ${number(total)} tokens of a model’s context (estimated: four bytes a token).`),
    h("table", { class: "bars" }, h("thead", { class: "unseen" }, h("tr", {}, ["From", "Tools", "Tokens", "Share"].map((t) => h("th", { scope: "col" }, t)))),
      h("tbody", {}, rows.map(([name, tools, tokens]) => h("tr", {},
        h("th", { scope: "row" }, name), h("td", { class: "number" }, count(tools, "tool")), h("td", { class: "number" }, `≈ ${number(tokens)}`),
        h("td", { class: "bar-cell" }, h("span", { class: "share", style: { width: `${(100 * tokens / most).toFixed(1)}%` } }), h("span", { class: "unseen" }, `${Math.round(100 * tokens / Math.max(1, total))} %`)))))),
  ];
}
