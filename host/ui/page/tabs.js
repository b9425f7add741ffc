// Tabs by the pattern of the ARIA Authoring Practices: arrow keys, Home and End move and
// select.

import { fill, h, id } from "./dom.js";

// tabs makes tabs of [name, make] pairs. make returns the content of a panel and is called
// when the tab is first selected.
export function tabs(label, items) {
  const prefix = id("tab");
  const made = new Set();
  const panels = items.map((_, i) => h("div", { role: "tabpanel", id: `${prefix}-panel-${i}`, "aria-labelledby": `${prefix}-${i}`, tabindex: "0", class: "panel" }));
  const buttons = items.map(([name], i) => h("button", {
    type: "button", role: "tab", id: `${prefix}-${i}`, "aria-controls": `${prefix}-panel-${i}`, onclick: () => select(i),
    onkeydown: (event) => {
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: items.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const at = (to + items.length) % items.length;
      select(at);
      buttons[at].focus();
    },
  }, name));

  function select(at) {
    buttons.forEach((button, i) => {
      button.setAttribute("aria-selected", String(i === at));
      button.tabIndex = i === at ? 0 : -1;
      panels[i].hidden = i !== at;
    });
    if (!made.has(at)) {
      made.add(at);
      fill(panels[at], items[at][1]());
    }
  }

  select(0);
  return h("div", { class: "tabs" }, h("div", { role: "tablist", "aria-label": label }, buttons), panels);
}

// later shows what a promise of content gives.
export function later(promise) {
  const place = h("div", { "aria-busy": "true" }, h("p", { class: "soft" }, "Loading …"));
  promise.then((content) => fill(place, content), (error) => {
    if (error.name !== "AbortError") fill(place, h("p", { class: "failed" }, error.message));
  }).finally(() => place.removeAttribute("aria-busy"));
  return place;
}
