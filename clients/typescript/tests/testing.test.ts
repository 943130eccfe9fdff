import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { z } from "zod";
import { Abort, handle, Snooze } from "scylla-pg";
import { assertSubmitted, runReady, submitted } from "scylla-pg/testing";
import { database, type Database } from "./lib/server.js";

let db: Database;
before(async () => void (db = await database()));
after(async () => await db[Symbol.asyncDispose]());

test("what is ready runs in this process, and what its handlers submit", async () => {
  const handlers = {
    first: async (task: { spec: unknown }) => {
      await db.client.submit("run", { from: task.spec }, { action: "second" });
      return 1;
    },
    second: handle(z.object({ from: z.string() }), ({ spec }) => spec.from.toUpperCase()),
    bad: () => { throw new Error("bad"); },
    never: () => { throw new Abort("never"); },
    later: () => { throw new Snooze(60_000); },
  };
  for (const action of Object.keys(handlers).filter((name) => name !== "second")) {
    await db.client.submit("run", "x", { action, retryInterval: "1 hour" });
  }
  await db.client.submit("run", {}, { action: "unknown" });
  const ran = await runReady(db.pool, { queues: "run", handlers });
  assert.deepEqual(ran.map(({ action, outcome, result }) => [action, outcome, result]), [
    ["first", "completed", 1], ["bad", "retry", undefined], ["never", "aborted", undefined], ["later", "yield", undefined], ["second", "completed", "X"],
  ]);
  assert.match(String(ran[1]!.thrown), /bad/);
  assert.deepEqual(await runReady(db.pool, { queues: "run", handlers }), []);
  assert.equal((await db.client.task(ran[0]!.id)).status, "completed");
  assert.equal((await db.client.task(ran[2]!.id)).status, "aborted");
});

test("what has run is told with the spec that was submitted, whatever its schema makes of it", async () => {
  await db.client.submit("read", { at: "2026-01-01" });
  const seen: unknown[] = [];
  const handlers = { "": handle(z.object({ at: z.coerce.date() }), ({ spec }) => void seen.push(spec.at)) };
  const [ran] = await runReady(db.pool, { queues: "read", handlers });
  assert.deepEqual([ran!.spec, seen], [{ at: "2026-01-01" }, [new Date("2026-01-01")]]);
});

test("what was submitted is found, in the transaction that submits, too", async () => {
  const tx = await db.pool.connect();
  try {
    await tx.query("begin");
    await db.client.with(tx).submit("found", { to: "a@example.com", nested: { a: 1, b: [1] } }, { action: "mail", key: "k" });
    const task = await assertSubmitted(tx, { queue: "found", action: "mail", spec: { nested: { b: [1] } } });
    assert.deepEqual([task.key, task.status, task.groupKey], ["k", "ready", null]);
    assert.equal((await submitted(tx, { queue: "found", spec: { nested: { b: [1, 2] } } })).length, 0);
    await assert.rejects(assertSubmitted(tx, { queue: "found", action: "other" }), /no task was submitted with .*other.*there is 1\n/);
    await assert.rejects(assertSubmitted(db.pool, { queue: "found" }), /there are 0/);
  } finally {
    await tx.query("rollback");
    tx.release();
  }
});
