// A list with a filter beside the details of what is selected in it.

import { h, id } from "./dom.js";
import { count } from "./format.js";
import { patch } from "./patch.js";

const shownAtOnce = 200;

// picker makes the list. items are {key, href, text, group, content()}; text is what the
// filter looks at. select(key) marks one, update(items) shows others.
export function picker({ label, items, group = "", none }) {
  const heading = id("filter");
  const filter = h("input", { id: heading, type: "search", placeholder: "Filter", "aria-label": `Filter: ${label}`, autocomplete: "off", spellcheck: "false" });
  const found = h("p", { class: "soft found", role: "status" });
  const list = h("div", { class: "items" });
  let most = shownAtOnce;
  let selected = "";

  function draw() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fitting = items.filter((item) => (!group || item.group === group) && words.every((word) => item.text.includes(word)));
    const groups = new Map();
    for (const item of fitting.slice(0, most)) {
      if (!groups.has(item.group)) groups.set(item.group, []);
      groups.get(item.group).push(item);
    }
    patch(found, items.length ? `${count(fitting.length, "tool")}${group ? ` of ${group}` : ""}` : "");
    patch(list,
      [...groups].map(([name, members]) => [
        name ? h("h2", { class: "group", dataset: { key: `heading ${name}` } }, name) : null,
        h("ul", { dataset: { key: `group ${name}` } }, members.map((item) => h("li", { dataset: { key: item.key } }, h("a", { href: item.href, dataset: { key: item.key }, "aria-current": item.key === selected ? "true" : null }, item.content())))),
      ]),
      fitting.length > most ? h("button", { type: "button", onclick: () => { most += 500; draw(); } }, `Show more of ${count(fitting.length, "tool")}`) : null,
      items.length ? (fitting.length ? null : h("p", { class: "soft nothing" }, "None fits the filter.")) : none());
  }

  filter.addEventListener("input", () => { most = shownAtOnce; draw(); });
  draw();
  return {
    update(others) {
      items = others;
      draw();
    },
    element: h("nav", { class: "picker", "aria-label": label }, filter, found, list),
    select(key) {
      selected = key;
      for (const link of list.querySelectorAll("a")) {
        if (link.dataset.key === key) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
      const at = items.findIndex((item) => item.key === key);
      if (at >= most) { most = at + 1; draw(); }
    },
  };
}
