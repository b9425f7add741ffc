// Changing what is shown without losing the focus, the place of the scroll bar, what is
// selected, what was typed and what is open: elements that stay are changed, not replaced.

import { append, handlers, listen } from "./dom.js";

// patch makes the children of an element like those that are given. Elements are the same
// if they have the same data-key, or no key, and the same name and class. Of these, the
// person's are left as they are: what is open, values of fields, and everything inside of an
// element with data-keep. A handler "patched" of an element is called when that was changed.
export function patch(element, ...children) {
  const focused = element.contains(document.activeElement) && document.activeElement !== element;
  const fresh = document.createElement("div");
  append(fresh, children);
  reconcile(element, fresh);
  if (focused && !element.contains(document.activeElement)) {
    const heading = element.querySelector("[tabindex='-1']") ?? document.querySelector("main h1");
    (heading ?? document.getElementById("main")).focus({ preventScroll: true });
  }
  return element;
}

const keyOf = (node) => (node instanceof Element ? node.dataset.key : undefined);
const alike = (a, b) => a.nodeName === b.nodeName && (!(a instanceof Element) || a.className.split(" ")[0] === b.className.split(" ")[0]);

function reconcile(old, fresh) {
  const keyed = new Map([...old.children].filter(keyOf).map((child) => [keyOf(child), child]));
  const others = [...old.childNodes].filter((node) => !keyOf(node));
  const matches = new Map(); // of new nodes with old ones
  for (const wanted of fresh.childNodes) {
    let found;
    if (keyOf(wanted)) {
      found = keyed.get(keyOf(wanted));
      if (found && !alike(found, wanted)) found = undefined;
    } else {
      const at = others.findIndex((node) => alike(node, wanted));
      if (at >= 0) found = others.splice(0, at + 1)[at];
    }
    if (found) matches.set(wanted, found);
  }
  const stay = new Set(matches.values());
  for (const node of [...old.childNodes]) if (!stay.has(node)) node.remove();
  let at = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const found = matches.get(wanted);
    if (!found) old.insertBefore(wanted, at);
    else if (found === at) at = at.nextSibling;
    else old.insertBefore(found, at);
    if (found) update(found, wanted);
  }
}

function update(old, fresh) {
  if (!(old instanceof Element)) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  const mine = (name) => name === "open" && old instanceof HTMLDetailsElement || name === "style";
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !mine(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (!mine(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
  for (const [type, handler] of Object.entries(handlers.get(fresh) ?? {})) listen(old, type, handler);
  if (old.dataset.keep === undefined && !["INPUT", "SELECT", "TEXTAREA"].includes(old.nodeName)) reconcile(old, fresh);
  handlers.get(old)?.patched?.(old);
}
