import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { differences, read } from "./suite.js";

const results = (statuses) => new Map(Object.entries(statuses).map(([name, status]) => [name, { status }]));

test("checks with different status, and checks in only one result, are listed", () => {
  const want = results({ "a: same": "SUCCESS", "a: worse": "SUCCESS", "b: better": "WARNING", "b: gone": "INFO" });
  const got = results({ "a: same": "SUCCESS", "a: worse": "FAILURE", "b: better": "SUCCESS", "c: new": "SUCCESS" });
  got.get("a: worse").why = "reason";
  assert.deepEqual(differences(want, want), []);
  assert.deepEqual(differences(want, got), [
    "a: worse: FAILURE, direct SUCCESS (reason)", "b: better: SUCCESS, direct WARNING",
    "b: gone: not there, direct INFO", "c: new: SUCCESS, direct not there",
  ]);
});

test("explained differences are not listed, unless there is none", () => {
  const want = results({ "a: one": "SUCCESS", "a: two": "SUCCESS" });
  const got = results({ "a: one": "WARNING", "a: two": "SUCCESS" });
  assert.deepEqual(differences(want, got, { "a: one": "reason" }), []);
  assert.deepEqual(differences(want, got, { "a: one": "reason", "a: two": "reason" }), ["a: two: is explained, but does not differ"]);
});

test("results are read by scenario and check; a scenario without results has broken off", (t) => {
  const dir = mkdtempSync(join(tmpdir(), "suite-test-"));
  t.after(() => rmSync(dir, { recursive: true }));
  const scenario = (name, checks) => {
    mkdirSync(join(dir, `${name}-2026-11-22T21-12-32-969Z`), { recursive: true });
    if (checks) writeFileSync(join(dir, `${name}-2026-11-22T21-12-32-969Z`, "checks.json"), JSON.stringify(checks));
  };
  const log = { id: "incoming-request", status: "INFO" };
  const check = (id, status, errorMessage) => ({ id, status, errorMessage, specReferences: [] });
  scenario("server-caching", [log, check("x", "SUCCESS"), check("x", "FAILURE", "why")]);
  scenario("auth/basic", [check("y", "INFO")]);
  scenario("server-broken");
  assert.deepEqual([...read(dir)].map(([name, { status }]) => `${name}: ${status}`).sort(), [
    "auth/basic: y: INFO", "broken: the scenario ends: FAILURE", "caching: x (2): FAILURE", "caching: x: SUCCESS",
  ]);
});
