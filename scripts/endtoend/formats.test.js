import assert from "node:assert/strict";
import { test } from "node:test";
import { junit, tap } from "./formats.js";

test("tap", () => {
  const text = "TAP version 14\nok 1 - a: x\n  ---\n  duration_ms: 1\n  ...\nnot ok 2 - y\n1..2\n# 2 checks\n";
  assert.deepEqual(tap(text), { points: [{ ok: true, description: "a: x" }, { ok: false, description: "y" }], plan: 2 });
  for (const [bad, why] of [
    ["ok 1 - a", /begins with/],
    ["TAP version 14\nok 2 - a", /out of order/],
    ["TAP version 14\nok 1 - a\n  ---\n", /does not end/],
    ["TAP version 14\nhello", /no TAP/],
    ["TAP version 14\nok 1 - a\n  ---\nloose\n  ...", /in a diagnostic/],
  ]) {
    assert.throws(() => tap(bad), why);
  }
});

test("junit", () => {
  const text = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="2" failures="1" errors="0"><testsuite name="f">
  <testcase name="a &lt;b&#62;" line="3"></testcase>
  <testcase name="c"><failure message="m">1 &#x3c; 2</failure><system-out>x</system-out></testcase>
  <testcase name="d"/>
</testsuite></testsuites>
`;
  assert.deepEqual(junit(text), {
    tests: 2, failures: 1, errors: 0,
    cases: [{ name: "a <b>", line: 3 }, { name: "c", line: NaN, failure: "1 < 2" }, { name: "d", line: NaN }],
  });
  for (const [bad, why] of [
    ["<a><b></a>", /ends something else/],
    ["<a>", /does not end/],
    ["<a x=1></a>", /no XML/],
    ['<a x="&nope;"></a>', /entity/],
    ["<a></a>x", /outside/],
  ]) {
    assert.throws(() => junit(bad), why);
  }
});
