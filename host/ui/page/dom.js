// Elements of the page. Texts come from servers, scripts and models, so they become text
// nodes, never HTML, and characters that hide or reorder text are shown as escapes.

// Control, formatting, private and unassigned characters, and letters and symbols without a
// shape, but not newlines, tabs, and what joins and colours emoji.
const unseen = /(?![\n\t\u200d\ufe0f])[\p{C}\p{Default_Ignorable_Code_Point}\u2800]/gu;

export function visible(text) {
  return String(text).replaceAll("\r\n", "\n").replace(unseen, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

// h makes an element. Attributes that are null, undefined or false are left out; class,
// style (an object of properties), dataset and event handlers (on...) are set as such.
// Children are elements, texts, arrays of them, or null.
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) listen(element, key.slice(2), value);
    else if (key === "class") element.className = value;
    else if (key === "style") for (const [property, v] of Object.entries(value)) element.style.setProperty(property, v);
    else if (key === "dataset") Object.assign(element.dataset, value);
    else if (key === "value") element.value = value;
    else element.setAttribute(key, value === true ? "" : visible(value));
  }
  append(element, children);
  return element;
}

// handlers has the event handlers of each element by type. patch() gives an element those of
// a newer one.
export const handlers = new WeakMap();

export function listen(element, type, handler) {
  let all = handlers.get(element);
  if (!all) handlers.set(element, all = {});
  if (!Object.hasOwn(all, type)) element.addEventListener(type, (event) => handlers.get(element)[type](event));
  all[type] = handler;
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
}

// fill replaces the children of an element.
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

let last = 0;

// id returns a new id for an element.
export function id(prefix) {
  last++;
  return `${prefix}-${last}`;
}

// announce says a short sentence to screen readers.
export function announce(text) {
  fill(document.getElementById("announcer"), text.length > 200 ? `${text.slice(0, 200)} …` : text);
}

// busy marks a button whose action goes on. It keeps the focus, which a disabled one loses.
export function busy(button, is) {
  if (is) button.setAttribute("aria-disabled", "true");
  else button.removeAttribute("aria-disabled");
}

// badge is a state in words, with a class for its colour.
export function badge(kind, text) {
  return h("span", { class: `badge ${kind}` }, text);
}

// facts is a list of names with values. Pairs without a value are left out.
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "").map(
    ([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)),
  ));
}

// notice is a paragraph that stands out.
export function notice(kind, ...children) {
  return h("div", { class: `notice ${kind}` }, ...children);
}

// problem shows an error.
export function problem(error) {
  return notice("error", h("p", {}, h("strong", {}, "Error: "), error.message));
}

// block is a text as it is, in a box that can be scrolled with the keyboard.
export function block(text, label) {
  return h("pre", { class: "block", tabindex: "0", role: "region", "aria-label": label }, text);
}
