import assert from "node:assert/strict";
import { test } from "node:test";
import { differences } from "./conformance.js";

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
