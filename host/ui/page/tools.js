// The tools of all servers, with a form to try each.

import { badge, block, fill, h, notice, problem } from "./dom.js";
import { get } from "./api.js";
import { onChange } from "./live.js";
import { patch } from "./patch.js";
import { tokens } from "./format.js";
import { picker } from "./list.js";
import { tabs } from "./tabs.js";
import { trial } from "./trial.js";
import { summary } from "./schema.js";

const groups = { saved: "Saved tools", builtin: "Built-in tools" };

const order = { proxied: 0, saved: 1, builtin: 2 };

const keyOf = (t) => [t.kind, t.server, t.name].map(encodeURIComponent).join("/");

let current; // {list, detail, group} of the view

async function items(group, signal) {
  const { tools: all } = await get("tools", {}, signal);
  all.sort((a, b) => order[a.kind] - order[b.kind]);
  return all.map((t) => ({
    key: keyOf(t), href: `#/tools/${keyOf(t)}${group ? `?server=${encodeURIComponent(group)}` : ""}`, group: groups[t.kind] ?? t.server,
    text: `${t.name} ${t.server} ${t.title ?? ""} ${t.description ?? ""}`.toLowerCase(),
    content: () => [
      h("span", { class: "item-name" }, t.name, marks(t)),
      t.description ? h("span", { class: "item-text" }, t.description.slice(0, 160)) : null,
    ],
  }));
}

export async function tools({ main, rest, query, signal, live, again, title }) {
  const group = query.get("server") ?? "";
  if (!again || !current || group !== current.group) {
    const list = picker({ label: "Tools", group, none: () => h("p", { class: "soft nothing" }, "There are no tools yet. Those of a server appear when it has been started."), items: await items(group, signal) });
    current = { list, detail: h("section", { class: "detail", "aria-label": "Tool" }), group };
    fill(main,
      h("div", { class: "headline" }, h("h1", { tabindex: "-1" }, "Tools"), group ? h("p", { class: "summary" }, `of ${group} · `, h("a", { href: "#/tools" }, "all tools")) : null),
      h("div", { class: "split" }, list.element, current.detail));
  }
  const { list, detail } = current;
  const key = rest.map(encodeURIComponent).join("/");
  list.select(key);
  main.querySelector(".split").classList.toggle("selected", rest.length === 3);
  const one = rest.length === 3 ? { kind: rest[0], server: rest[1], name: rest[2] } : null;
  const changed = h("div", { role: "status" });
  let shown;
  async function open() {
    shown = await get("tool", one, signal);
    title(shown.name);
    fill(changed);
    fill(detail, changed, view(shown, signal));
  }
  onChange(live, "tools", signal, async () => {
    list.update(await items(group, signal));
    if (one) await compare();
  });

  // compare says that the tool is another one now. What was typed stays.
  async function compare() {
    let text = "";
    try {
      const now = await get("tool", one, signal);
      if (!shown) await open();
      else if (now.fingerprint !== shown.fingerprint) text = "This tool has changed since you opened it.";
    } catch (error) {
      if (error.status !== 404) throw error;
      text = "Its server does not offer this tool any more.";
    }
    patch(changed, text ? notice("warning", h("p", {}, text, " ", h("button", { type: "button", class: "small", onclick: async () => { await open().catch((error) => fill(detail, problem(error))); detail.querySelector("h2")?.focus(); } }, "Show it as it is now"))) : null);
  }

  if (!one) {
    fill(detail, h("p", { class: "hint" }, "Select a tool to see its arguments and to try it."));
    return;
  }
  try {
    await open();
  } catch (error) {
    if (signal.aborted || error.status === 401) throw error;
    fill(detail, problem(error));
  }
}

function marks(t) {
  if (!t.listed) return h("span", { class: "mark", title: "Only scripts can call it" }, "scripts only");
  if (t.hints.readOnly) return h("span", { class: "mark good", title: "It says that it only reads" }, "reads");
  if (t.hints.given && t.hints.destructive) return h("span", { class: "mark bad", title: "It says that it may destroy" }, "may destroy");
  return null;
}

// warnings are what a tool says about itself, in words.
export function warnings(hints) {
  if (hints.readOnly) return badge("good", "says: only reads");
  if (!hints.given) return badge("calm", "does not say what it changes");
  return badge(hints.destructive ? "bad" : "busy", hints.destructive ? "says: may destroy" : "says: changes something");
}

function view(tool, signal) {
  const from = { saved: "Saved tool", builtin: "Built-in tool" }[tool.kind];
  return [
    h("a", { class: "back", href: "#/tools" }, "← All tools"),
    h("h2", { class: "title", tabindex: "-1", dataset: { focus: "" } }, tool.name),
    h("p", { class: "soft line" }, from ?? ["Tool of ", h("strong", {}, tool.server), tool.tool ? `, which calls it ${tool.tool}` : ""], ` · ${tokens(tool.tokens)} tokens`,
      tool.kind === "saved" ? [" · ", h("a", { href: `#/saved/${encodeURIComponent(tool.name)}` }, "code and versions")] : null),
    h("p", { class: "badges" }, warnings(tool.hints), !tool.hints.readOnly && tool.hints.idempotent ? badge("calm", "says: can be repeated") : null),
    tool.title ? h("p", {}, h("strong", {}, tool.title)) : null,
    tool.description ? h("p", { class: "prose" }, tool.description) : h("p", { class: "soft" }, "It has no description."),
    tabs(`${tool.name}: views`, [
      ["Try it", () => (tool.callable ? trial(tool, signal) : notice("calm", h("p", {}, tool.listed ? "This page does not change saved tools." : "Clients do not see this tool. Only scripts can call it.")))],
      ["Arguments", () => summary(tool.inputSchema)],
      ["Definition", () => [block(tool.definition, "Definition"), tool.left ? h("p", { class: "soft" }, tool.left) : null]],
    ]),
  ];
}
