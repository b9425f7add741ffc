// The saved tools: code, what it calls, versions, schemas.

import { badge, block, facts, fill, h, notice, problem } from "./dom.js";
import { get } from "./api.js";
import { ago, count, number, time } from "./format.js";
import { code, difference } from "./code.js";
import { picker } from "./list.js";
import { onChange } from "./live.js";
import { patch } from "./patch.js";
import { later, tabs } from "./tabs.js";
import { warnings } from "./tools.js";

let current; // {list, detail, notices} of the view

const itemOf = (t) => ({
  key: t.name, href: `#/saved/${encodeURIComponent(t.name)}`, group: "", text: `${t.name} ${t.description}`.toLowerCase(),
  content: () => [h("span", { class: "item-name" }, t.name), h("span", { class: "item-text" }, `${t.description ? `${t.description.slice(0, 120)} · ` : ""}${count(t.runs, "run")}`)],
});

export async function saved({ main, rest, signal, live, again, title }) {
  const get1 = (name) => get(`saved/${encodeURIComponent(name)}`, {}, signal);
  const showProblems = (problems) => patch(current.notices, problems.map((p) => notice("warning", h("p", {}, "This file is not used. ", p))));
  if (!again || !current) {
    const { tools, problems } = await get("saved", {}, signal);
    const list = picker({ label: "Saved tools", none: () => h("p", { class: "soft nothing" }, "No tools are saved. An agent saves one with save_tool."), items: tools.map(itemOf) });
    current = { list, detail: h("section", { class: "detail", "aria-label": "Saved tool" }), notices: h("div") };
    showProblems(problems);
    fill(main, h("div", { class: "headline" }, h("h1", { tabindex: "-1" }, "Saved tools")), current.notices, h("div", { class: "split" }, list.element, current.detail));
  }
  const { list, detail } = current;
  const [name] = rest;
  list.select(name ?? "");
  main.querySelector(".split").classList.toggle("selected", name !== undefined);
  let shown;
  const about = h("div");
  const changed = h("div", { role: "status" });
  async function open() {
    shown = await get1(name);
    title(shown.name);
    fill(changed);
    patch(about, figures(shown));
    fill(detail, changed, view(shown, about, signal));
  }
  onChange(live, "savedTools", signal, async () => {
    const { tools, problems } = await get("saved", {}, signal);
    list.update(tools.map(itemOf));
    showProblems(problems);
    if (name === undefined) return;
    let text = "";
    try {
      const now = await get1(name);
      if (!shown) await open();
      else if (now.hash !== shown.hash) text = "This tool has changed since you opened it.";
      else patch(about, figures(now));
    } catch (error) {
      if (error.status !== 404) throw error;
      text = "This tool was deleted.";
    }
    patch(changed, text ? notice("warning", h("p", {}, text, " ", h("button", { type: "button", class: "small", onclick: async () => { await open().catch((error) => fill(detail, problem(error))); detail.querySelector("h2")?.focus(); } }, "Show it as it is now"))) : null);
  });
  if (name === undefined) {
    fill(detail, h("p", { class: "hint" }, "Select a tool to see its code, what it may call, and its versions."));
    return;
  }
  try {
    await open();
  } catch (error) {
    if (signal.aborted || error.status === 401) throw error;
    fill(detail, problem(error));
  }
}

const figures = (tool) => facts([["Changed", time(tool.modified)], ["Created", time(tool.created)], ["Runs", number(tool.runs)], ["Last run", tool.lastExecuted && ago(tool.lastExecuted)], ["Version", tool.hash.slice(0, 12)]]);

function view(tool, about, signal) {
  return [
    h("a", { class: "back", href: "#/saved" }, "← All saved tools"),
    h("h2", { class: "title", tabindex: "-1", dataset: { focus: "" } }, tool.name),
    h("p", { class: "links" }, h("a", { href: `#/tools/saved//${encodeURIComponent(tool.name)}` }, "Try it"), h("a", { href: `#/runs?tool=${encodeURIComponent(tool.name)}` }, "Its runs")),
    tool.description ? h("p", { class: "prose" }, tool.description) : null,
    about,
    tabs(`${tool.name}: views`, [
      ["Code", () => code(tool.code, "Code")],
      ["Permissions", () => permissions(tool, signal)],
      ["History", () => history(tool, signal)],
      ["Schemas", () => [h("h3", {}, "Arguments"), block(tool.inputSchema, "Schema of the arguments"), h("h3", {}, "Result"), tool.outputSchema ? block(tool.outputSchema, "Schema of the result") : h("p", { class: "soft" }, "There is no schema for the result.")]],
    ]),
  ];
}

// permissions shows what the code calls, and whether it may.
function permissions(tool, signal) {
  return [
    h("p", {}, "The script runs in a sandbox without files and network. All it can do is call tools. Those that its code names:"),
    later(get(`saved/${encodeURIComponent(tool.name)}/calls`, {}, signal).then(({ calls, warnings: found }) => [
      calls.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Tools that the code names" }, h("table", {},
        h("thead", {}, h("tr", {}, ["Tool", "Line", "May it?", "Says"].map((t) => h("th", { scope: "col" }, t)))),
        h("tbody", {}, calls.map((c) => h("tr", {},
          h("th", { scope: "row" }, h("code", {}, `${c.server}.${c.tool}`)),
          h("td", {}, number(c.line), c.times > 1 ? h("span", { class: "soft" }, ` and ${count(c.times - 1, "other")}`) : null),
          h("td", {}, c.problem ? [badge("bad", "no"), " ", h("span", { class: "soft" }, c.problem)] : badge("good", "yes")),
          h("td", {}, c.problem ? "" : c.server === "tools" ? "saved tool" : warnings(c.hints))))))) : h("p", {}, "The code names no tool."),
      h("p", { class: "soft" }, "Tools whose names the script computes are not in this list."),
      found.length ? [h("h3", {}, "Warnings"), h("ul", {}, found.map((w) => h("li", {}, w)))] : null,
    ])),
    h("h3", {}, "Limits"),
    tool.limits ? block(JSON.stringify(tool.limits, null, 2), "Limits") : h("p", { class: "soft" }, "Those of the configuration: the tool has none of its own."),
  ];
}

// history lists the versions, each with its difference from the one before.
function history(tool, signal) {
  if (tool.versions.length === 1) return h("p", {}, "There is only the current version.");
  return h("ol", { class: "versions" }, tool.versions.map((v, i) => {
    const before = tool.versions[i + 1];
    const about = [
      h("strong", {}, v.number === 0 ? "Now" : `Version ${v.number}`),
      v.saved ? ` · saved ${time(v.saved)}` : "", v.ended ? ` · until ${time(v.ended)} (${v.endedBy})` : "",
      v.problem ? h("span", { class: "failed" }, ` · ${v.problem}`) : null,
      v.changed?.length ? h("span", { class: "soft" }, ` · changed: ${v.changed.join(", ")}`) : null,
    ];
    if (!before || v.problem || before.problem) return h("li", {}, about);
    const details = h("details", {}, h("summary", {}, about), h("div"));
    details.addEventListener("toggle", () => {
      const path = `saved/${encodeURIComponent(tool.name)}/diff`;
      fill(details.lastChild, later(get(path, { from: before.number, to: v.number }, signal).then(({ diff }) => difference(diff, `What changed before ${v.number === 0 ? "now" : `version ${v.number}`}`))));
    }, { once: true });
    return h("li", {}, details);
  }));
}
