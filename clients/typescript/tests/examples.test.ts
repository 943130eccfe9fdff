import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdirSync } from "node:fs";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { database, type Database } from "./lib/server.js";

const run = promisify(execFile);
let db: Database;
before(async () => void (db = await database()));
after(async () => await db[Symbol.asyncDispose]());

const said: Record<string, RegExp> = {
  "first-worker": /welcome, ann@example\.com\n\{ sent: true \}\n/,
  transaction: /^ready\nDuplicateError\nduplicate: no task for the order that failed\nnull\n$/,
  typed: /https:\/\/example\.com\/a\.png\?w=320\ntask … was aborted: 20000 pixels\nTypeError\n/,
};

test("each example is tested", () => {
  const there = readdirSync(fileURLToPath(new URL("../examples", import.meta.url))).filter((name) => name.endsWith(".js"));
  assert.deepEqual(there.sort(), Object.keys(said).map((name) => `${name}.js`).sort());
});

for (const [name, expected] of Object.entries(said)) {
  test(`the example ${name} says what it should, and ends`, async () => {
    const { stdout } = await run(process.execPath, [fileURLToPath(new URL(`../examples/${name}.js`, import.meta.url))], {
      env: { ...process.env, PGDATABASE: db.config.database }, timeout: 30_000,
    });
    assert.match(stdout, expected);
  });
}
