import assert from "node:assert/strict";
import { test } from "node:test";
import { elements, member, members, replace, tokens } from "./rawjson.js";

const object = ' { "a" : 9007199254740993 , "b\\u0062":[1.0, -0.0,{"x":"]}\\"\\\\"} ],"c":{},"d":"","e":null }';

test("numbers and order survive", () => {
  assert.equal(member(object, "a"), "9007199254740993");
  assert.deepEqual(members(object).map(([k]) => k), ["a", "bb", "c", "d", "e"]);
  assert.deepEqual(elements(member(object, "bb")), ["1.0", "-0.0", '{"x":"]}\\"\\\\"}']);
  assert.equal(member(object, "bb").length, object.indexOf("],") + 1 - object.indexOf("[1.0"));
  assert.equal(member(object, "c", "x"), undefined);
});

test("tokens are equal only for the same values in other spellings", () => {
  assert.equal(tokens('{"é" :[1 ,2]}'), tokens('{"\\u00e9":[1,2]}'));
  for (const [a, b] of [["1", "1.0"], ["[1,2]", "[12]"], ['{"a":1,"b":2}', '{"b":2,"a":1}'], ['"1"', "1"], ["9007199254740993", "9007199254740992"]]) {
    assert.notEqual(tokens(a), tokens(b));
  }
});

test("replace changes one member", () => {
  assert.equal(tokens(replace(object, "d", "[5]")), tokens(object.replace('""', "[5]")));
});

test("a truncated text is an error", () => {
  assert.throws(() => elements("[1,{"));
  assert.throws(() => members('{"a'));
  assert.throws(() => members("[]"));
});
