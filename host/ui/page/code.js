// Code with line numbers, and differences.

import { h } from "./dom.js";

const words = new Set("and as break continue def del elif else except finally for if import in is lambda load not or pass raise return try while None True False from".split(" "));
const token = /("""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)|(#[^\n]*)|(\b\d[\w.]*)|(\b[A-Za-z_]\w*)/g;
const longest = 200_000; // characters of code that get colours

// code shows a script.
export function code(text, label) {
  const lines = [[]];
  const put = (part, kind) => part.split("\n").forEach((piece, i) => {
    if (i > 0) lines.push([]);
    if (piece) lines.at(-1).push(kind ? h("span", { class: kind }, piece) : piece);
  });
  let at = 0;
  for (const found of text.length > longest ? [] : text.matchAll(token)) {
    put(text.slice(at, found.index));
    const [all, string, comment, number, word] = found;
    put(all, string ? "string" : comment ? "comment" : number ? "literal" : word && words.has(word) ? "word" : undefined);
    at = found.index + all.length;
  }
  put(text.slice(at));
  if (lines.length > 1 && lines.at(-1).length === 0) lines.pop();
  return h("pre", { class: "block code-block", tabindex: "0", role: "region", "aria-label": label }, lines.map((line) => h("span", { class: "code-line" }, line, "\n")));
}

// difference shows a unified diff.
export function difference(text, label) {
  if (text === "") return h("p", {}, "They are the same.");
  const kinds = { "+": "added", "-": "removed", "@": "place" };
  return h("pre", { class: "block", tabindex: "0", role: "region", "aria-label": label },
    text.replace(/\n$/, "").split("\n").map((line) => h("span", { class: `diff-line ${/^(---|\+\+\+) /.test(line) ? "place" : kinds[line[0]] ?? ""}` }, line, "\n")));
}
