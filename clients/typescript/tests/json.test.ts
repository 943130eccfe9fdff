import assert from "node:assert/strict";
import { test } from "node:test";
import { parseJson, toJson } from "scylla-pg";

test("integers beyond 2^53 survive", () => {
  const text = '{"id":9223372036854775807,"low":-9007199254740993,"list":[1,12345678901234567890]}';
  const value = parseJson(text);
  assert.deepEqual(value, { id: 9223372036854775807n, low: -9007199254740993n, list: [1, 12345678901234567890n] });
  assert.equal(toJson(value), text);
});

test("what only looks like an integer stays", () => {
  for (const text of ['"1234567890123456789"', '{"1234567890123456789":1}', '"a \\"1234567890123456789"', "1.1234567890123456789", "1234567890123456789e3", "9007199254740991"]) {
    assert.deepEqual(parseJson(text), JSON.parse(text), text);
  }
});

test("undefined is no JSON", () => {
  assert.equal(toJson(undefined), undefined);
  assert.equal(toJson(null), "null");
});
