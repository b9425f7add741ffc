// JSON read without changing it: numbers keep their digits and members their
// order, which JSON.parse does not do. Texts must be valid JSON (JSON.parse has
// been run on them before).

const space = /[ \t\n\r]*/y;

function skip(text, i) {
  space.lastIndex = i;
  space.exec(text);
  return space.lastIndex;
}

// end gives the index after the value that starts at i.
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

// items gives the raw texts of what a container holds: elements of an array,
// [key, value] pairs of an object.
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

// elements of an array, as raw texts.
export function elements(text) {
  return items(text, "[", (list, i) => {
    const stop = end(text, i);
    list.push(text.slice(i, stop));
    return stop;
  });
}

// members of an object, as [key, raw text] in the order of the text.
export function members(text) {
  return items(text, "{", (list, i) => {
    const keyEnd = end(text, i);
    const value = skip(text, skip(text, keyEnd) + 1); // after the colon
    const stop = end(text, value);
    list.push([JSON.parse(text.slice(i, keyEnd)), text.slice(value, stop)]);
    return stop;
  });
}

// member gives the raw text at a path of keys, undefined when it is not there.
export function member(text, ...path) {
  for (const key of path) {
    const found = members(text).find(([k]) => k === key);
    if (!found) return undefined;
    text = found[1];
  }
  return text;
}

// replace gives the object with one member's raw text replaced.
export function replace(text, key, raw) {
  return "{" + members(text).map(([k, v]) => JSON.stringify(k) + ":" + (k === key ? raw : v)).join(",") + "}";
}

// tokens gives the text without insignificant white space and with strings in
// one spelling: equal for two texts exactly when they have the same tokens.
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
