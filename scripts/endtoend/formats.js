// Strict readers of the report formats of smoke.

import { assert } from "./report.js";

// tap reads TAP 14. It returns the test points {ok, description} and the number in
// the plan.
export function tap(text) {
  const [version, ...lines] = text.trimEnd().split("\n");
  assert(version === "TAP version 14", `begins with ${version}`);
  const points = [];
  let plan;
  let inside = false; // in a diagnostic
  for (const line of lines) {
    const point = /^(not )?ok (\d+) - (.*)$/.exec(line);
    if (inside) {
      assert(line === "" || line.startsWith("  "), `in a diagnostic: ${line}`);
      inside = line !== "  ...";
    } else if (line === "  ---") {
      inside = true;
    } else if (point) {
      points.push({ ok: !point[1], description: point[3] });
      assert(Number(point[2]) === points.length, `out of order: ${line}`);
    } else if (/^1\.\.\d+$/.test(line)) {
      plan = Number(line.slice(3));
    } else {
      assert(line.startsWith("#"), `no TAP: ${line}`);
    }
  }
  assert(!inside, "a diagnostic does not end");
  return { points, plan };
}

// junit reads JUnit XML with one level of suites. It returns the counts of the root
// and the cases {name, line, failure, error}, where failure and error are texts. XML
// that is not well-formed is an error.
export function junit(text) {
  const open = [];
  const cases = [];
  let root;
  let rest = text.replace(/^<\?xml [^?]*\?>\s*/, "");
  for (let token; rest !== ""; rest = rest.slice(token[0].length)) {
    token = /^<(\/?)([\w-]+)((?:\s+[\w-]+="[^"<]*")*)\s*(\/?)>|^[^<]+/.exec(rest);
    assert(token, `no XML: ${rest.slice(0, 200)}`);
    const [whole, closes, name, attributes, empty] = token;
    if (!name) {
      const at = open.at(-1);
      assert(open.length > 0 || whole.trim() === "", `text outside of the document: ${whole}`);
      if (at === "failure" || at === "error") cases.at(-1)[at] += unescaped(whole);
      continue;
    }
    if (closes) {
      assert(open.pop() === name, `</${name}> ends something else`);
      continue;
    }
    const values = Object.fromEntries([...attributes.matchAll(/([\w-]+)="([^"]*)"/g)].map(([, k, v]) => [k, unescaped(v)]));
    root ??= values;
    if (name === "testcase") cases.push({ name: values.name, line: Number(values.line) });
    if (name === "failure" || name === "error") cases.at(-1)[name] = "";
    if (!empty) open.push(name);
  }
  assert(open.length === 0, `<${open.at(-1)}> does not end`);
  return { tests: Number(root.tests), failures: Number(root.failures), errors: Number(root.errors), cases };
}

const entities = { lt: "<", gt: ">", amp: "&", quot: '"', apos: "'" };

function unescaped(text) {
  return text.replace(/&([^;]*);?/g, (whole, name) => {
    const number = /^#(?:x([0-9a-fA-F]+)|([0-9]+))$/.exec(name);
    const found = number ? String.fromCodePoint(parseInt(number[1] ?? number[2], number[1] ? 16 : 10)) : entities[name];
    assert(found !== undefined && whole.endsWith(";"), `an entity that is none: ${whole}`);
    return found;
  });
}
