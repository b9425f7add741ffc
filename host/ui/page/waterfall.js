// A run: its calls over time, its log and its values.

import { block, facts, h } from "./dom.js";
import { code } from "./code.js";
import { patch } from "./patch.js";

// waterfall shows the view of a run (package timeline).
export function waterfall(run, view) {
  return [
    view.failure ? h("section", { class: "card bad-edge", "aria-labelledby": "error" }, h("h2", { id: "error" }, "Error"),
      h("p", { class: "prose" }, h("strong", { class: "failed" }, `${view.failure.type} error: `), view.failure.message),
      view.place ? block(view.place, "Place in the script") : null, view.violations ? block(view.violations, "Violations of the schema") : null,
      view.failure.stack ? h("details", { dataset: { key: "stack" } }, h("summary", {}, "Backtrace"), block(view.failure.stack, "Backtrace")) : null) : null,
    h("section", { class: "card", "aria-labelledby": "calls" }, h("h2", { id: "calls" }, "Calls"),
      view.rows?.length ? h("div", { class: "waterfall" }, axis(view), view.rows.map(call)) : h("p", {}, run.done ? "The script made no calls." : "The script has made no calls yet.")),
    view.logs?.length ? h("section", { class: "card", "aria-labelledby": "log" }, h("h2", { id: "log" }, "Log"), log(view.logs)) : null,
    h("section", { class: "card", "aria-labelledby": "values" }, h("h2", { id: "values" }, "Values"), view.values.map((v) => h("details", { dataset: { key: `value ${v.name}` }, open: v.open },
      h("summary", {}, v.name), v.name === "script" ? code(v.text, "script") : block(v.text, v.name), left(v)))),
    h("section", { class: "card", "aria-labelledby": "about" }, h("h2", { id: "about" }, "About this run"),
      facts(view.facts.filter((f) => f.name !== "tool").map((f) => [f.name, f.value]))),
  ];
}

function left(value) {
  return value.left ? h("p", { class: "soft" }, `${value.left}: mcp-metatool runs show --calls shows all of it`) : null;
}

function percent(part) {
  return `${(100 * part).toFixed(3)}%`;
}

function axis(view) {
  return h("div", { class: "row axis-row", "aria-hidden": "true" }, h("span", {}, "#"), h("span", {}, "call"), h("span", { class: "number" }, "start"), h("span", { class: "number" }, "took"),
    h("span", { class: "track axis" }, view.ticks.map((t) => h("span", { class: "tick", style: { left: percent(t.at) } }, t.text))));
}

function call(row) {
  const values = () => row.values.filter((v) => v.text).map((v) => [h("h3", {}, v.name), block(v.text, `${v.name} of call ${row.number}`), left(v)]);
  const fillValues = (details) => { if (details.open) patch(details.lastChild, values()); }; // made when they are seen
  return h("details", { class: `call ${row.class}`, dataset: { key: `call ${row.number}` }, ontoggle: (event) => fillValues(event.currentTarget), onpatched: fillValues },
    h("summary", { class: "row" },
      h("span", { class: "soft" }, row.number),
      h("span", { class: "call-name", style: { "padding-left": `${row.depth}rem` } }, row.label, row.marks ? h("small", {}, ` ${row.marks}`) : null, row.class === "unanswered" ? h("small", {}, " no answer yet") : null),
      h("span", { class: "number" }, row.start), h("span", { class: "number" }, row.took),
      h("span", { class: "track", role: "img", "aria-label": `from ${row.start} for ${row.took}` }, h("span", { class: "bar", style: { left: percent(row.from), width: percent(row.width) } })),
      row.error ? h("span", { class: "why" }, row.error) : null),
    h("div", { class: "call-values", dataset: { keep: "" } }));
}

function log(entries) {
  return h("table", { class: "log" }, h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "number" }, "at"), h("th", { scope: "col" }, "level"), h("th", { scope: "col" }, "text"))),
    h("tbody", {}, entries.map((e) => h("tr", { class: e.level }, h("td", { class: "number" }, e.at), h("td", {}, e.level), h("td", { class: "log-text" }, e.from ? `${e.from}: ` : "", e.text)))));
}
