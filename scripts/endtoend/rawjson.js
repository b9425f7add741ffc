// Reads JSON without changing it: unlike with JSON.parse, numbers keep their digits
// and members their order. Texts must be valid JSON; callers run JSON.parse first.

const space = /[ \t\n\r]*/y;

function skip(text, i) {
  space.lastIndex = i;
  space.exec(text);
  return space.lastIndex;
}

// end returns the index after the value that starts at i.
function end(text, i) {
  if (text[i] === '"') return stringEnd(text, i);
  if (text[i] !== "{" && text[i] !== "[") {
    while (i < text.length && !",]} \t\n\r".includes(text[i])) i++;
    return i;
  }
  let depth = 0;
  for (;;) {
    const c = text[i];
    if (c === undefined) throw new Error("JSON text ends inside of a value");
    if (c === '"') {
      i = stringEnd(text, i);
      continue;
    }
    if (c === "{" || c === "[") depth++;
    if (c === "}" || c === "]") depth--;
    i++;
    if (depth === 0) return i;
  }
}

function stringEnd(text, i) {
  for (i++; text[i] !== '"'; i++) {
    if (text[i] === undefined) throw new Error("JSON text ends inside of a string");
    if (text[i] === "\\") i++;
  }
  return i + 1;
}

// items returns the raw texts in a container: elements of an array, or [key, value]
// pairs of an object.
function items(text, open, read) {
  let i = skip(text, 0);
  if (text[i] !== open) throw new Error(`JSON text does not start with ${open}: ${text.slice(0, 80)}`);
  const list = [];
  i = skip(text, i + 1);
  while (text[i] !== "}" && text[i] !== "]") {
    i = read(list, i);
    i = skip(text, i);
    if (text[i] === ",") i = skip(text, i + 1);
  }
  return list;
}

// elements returns the elements of an array as raw texts.
export function elements(text) {
  return items(text, "[", (list, i) => {
    const stop = end(text, i);
    list.push(text.slice(i, stop));
    return stop;
  });
}

// members returns the members of an object as [key, raw text], in order.
export function members(text) {
  return items(text, "{", (list, i) => {
    const keyEnd = end(text, i);
    const value = skip(text, skip(text, keyEnd) + 1); // after the colon
    const stop = end(text, value);
    list.push([JSON.parse(text.slice(i, keyEnd)), text.slice(value, stop)]);
    return stop;
  });
}

// member returns the raw text at a path of keys; undefined if there is none.
export function member(text, ...path) {
  for (const key of path) {
    const found = members(text).find(([k]) => k === key);
    if (!found) return undefined;
    text = found[1];
  }
  return text;
}

// replace returns the object with one member's raw text replaced.
export function replace(text, key, raw) {
  return "{" + members(text).map(([k, v]) => JSON.stringify(k) + ":" + (k === key ? raw : v)).join(",") + "}";
}

// tokens returns the text without insignificant white space and with strings in one
// spelling. It is equal for two texts exactly if they have the same tokens.
export function tokens(text) {
  const out = [];
  for (let i = skip(text, 0); i < text.length; i = skip(text, i)) {
    let stop = i + 1;
    if (text[i] === '"') stop = stringEnd(text, i);
    else if (!"{}[],:".includes(text[i])) stop = end(text, i);
    const token = text.slice(i, stop);
    out.push(text[i] === '"' ? JSON.stringify(JSON.parse(token)) : token);
    i = stop;
  }
  return out.join(" ");
}
