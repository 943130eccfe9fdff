import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import pg from "pg";
import * as v from "valibot";
import { z } from "zod";
import { Client, defineTask, DuplicateError, NotFoundError, NotPermittedError, QueueFullError, ScyllaError, sqlState, TaskFailedError, type Submission } from "scylla-pg";
import { database, type Database } from "./lib/server.js";

let db: Database;
before(async () => void (db = await database()));
after(async () => await db[Symbol.asyncDispose]());

const count = async (queue: string) => await db.value<number>("select count(*)::int from scylla.tasks where queue = $1", [queue]);

async function transaction(work: (client: pg.PoolClient) => Promise<void>): Promise<void> {
  const client = await db.pool.connect();
  try {
    await client.query("begin");
    await work(client);
  } finally {
    await client.query("rollback");
    client.release();
  }
}

test("a task is there when the caller's transaction commits, and not before", async () => {
  await transaction(async (tx) => {
    await db.client.with(tx).submit("commit", { n: 1 });
    assert.equal(await count("commit"), 0);
    await tx.query("commit");
    assert.equal(await count("commit"), 1);
  });
});

test("a rollback takes the task back, also to a savepoint", async () => {
  await transaction(async (tx) => {
    const client = db.client.with(tx);
    await client.submit("rollback", { n: 1 });
    await tx.query("savepoint s");
    await client.submit("rollback", { n: 2 });
    await tx.query("rollback to s");
    await tx.query("commit");
  });
  assert.deepEqual(await db.value("select array_agg(spec->'n') from scylla.tasks where queue = 'rollback'"), [1]);
  await transaction(async (tx) => void (await db.client.with(tx).submit("rollback", { n: 3 })));
  assert.equal(await count("rollback"), 1);
});

test("a taken key raises, is ignored, or is replaced", async () => {
  const first = await db.client.submit("key", {}, { key: "k" });
  await assert.rejects(db.client.submit("key", {}, { key: "k" }), (error) => {
    assert(error instanceof DuplicateError);
    assert.equal(error.code, "23505");
    assert.equal(error.constraint, "task_key");
    assert(error.cause instanceof pg.DatabaseError);
    return true;
  });
  assert.equal(await db.client.submit("key", {}, { key: "k", onConflict: "ignore" }), first);
  const second = await db.client.submit("key", {}, { key: "k", onConflict: "replace" });
  assert.equal((await db.client.task(first)).status, "cancelled");
  assert.equal(await db.client.taskId("key", "k"), second);
  assert.equal(await db.client.taskId("key", "none"), null);
});

test("each option reaches the server", async () => {
  const predecessor = await db.client.submit("options");
  const id = "018f0000-0000-7000-8000-00000000abcd";
  const runAt = new Date(Date.now() + 3_600_000);
  assert.equal(
    await db.client.submit("options", [1], {
      id, action: "do", priority: 7, key: "o", runAt, after: [predecessor], onFailure: "run", maxTries: 3,
      retryInterval: 1500, retryJitter: "2 s", lease: "1 minute", postResult: true, groupKey: "g", meta: { tag: "x" },
    }),
    id,
  );
  const entry = await db.client.task(id);
  assert.deepEqual(
    [entry.action, entry.priority, entry.key, entry.after, entry.maxTries, entry.groupKey, entry.spec, entry.runAt],
    ["do", 7, "o", [predecessor], 3, "g", [1], runAt],
  );
  assert.equal(entry.status, "waiting");
  const row = await db.pool.query("select * from scylla.tasks where id = $1", [id]);
  assert.deepEqual(row.rows[0].meta, { tag: "x" });
  await assert.rejects(db.client.submit("options", {}, { nosuch: 1 } as object), /unknown option: nosuch/);
});

test("a delay counts by the server's clock, and a number is no point in time", async () => {
  const id = await db.client.submit("later", {}, { delay: "1 hour" });
  const [many] = await db.client.submitMany("later", [{}], { delay: 3_600_000 });
  for (const { status, runAt, created } of [await db.client.task(id), await db.client.task(many!)]) {
    assert.equal(status, "waiting");
    const ahead = runAt!.getTime() - created.getTime();
    assert(ahead >= 3_599_000 && ahead <= 3_610_000, `${ahead} ms`);
  }
  await assert.rejects(db.client.submit("later", {}, { runAt: 1000 as unknown as Date }), TypeError);
  await assert.rejects(db.client.submit("later", {}, { runAt: new Date(), delay: 1 }), TypeError);
  await assert.rejects(db.client.submitTasks([{ queue: "later", delay: 1 } as Submission]), TypeError);
  await assert.rejects(db.client.delay(id, 1000 as unknown as Date), TypeError);
});

test("unique_for is sent only when it is given", async () => {
  const sent: [string, unknown][] = [];
  const client = new Client({ query: async (text, values) => (sent.push([text, values]), { rows: [{ id: "x" }] }) });
  await client.submit("q", {}, { key: "k", uniqueFor: "1 hour" });
  await client.submit("q", {}, { key: "k" });
  assert.match(sent[0]![0], /unique_for => \$4::text::interval/);
  assert.deepEqual(sent[0]![1], ["q", "{}", "k", "1 hour"]);
  assert(!sent[1]![0].includes("unique_for"));
});

test("a hundred thousand in batches, ids in order", async () => {
  const specs = Array.from({ length: 100_000 }, (_, n) => ({ n }));
  const ids = await db.client.submitMany("many", specs, { batch: 20_000 });
  assert.equal(new Set(ids).size, 100_000);
  assert.equal(await db.value("select count(*)::int from scylla.tasks where queue = 'many'"), 100_000);
  for (const n of [0, 19_999, 20_000, 99_999]) assert.deepEqual((await db.client.task(ids[n]!)).spec, { n });
});

test("many are all or nothing", async () => {
  await assert.rejects(db.client.submitMany("atomic", [1, 2], { keys: ["a", "a"] }), DuplicateError);
  assert.equal(await count("atomic"), 0);
  const ids = await db.client.submitMany("atomic", [1, 2], { keys: ["a", null], groupKeys: [null, "g"], action: "x" });
  const second = await db.client.task(ids[1]!);
  assert.deepEqual([second.key, second.groupKey, second.action], [null, "g", "x"]);
  await assert.rejects(db.client.submitMany("atomic", [1, 2], { keys: ["a"] }), RangeError);
  assert.deepEqual(await db.client.submitMany("atomic", []), []);
});

test("tasks of several queues tell their outcomes", async () => {
  const id = "018f0000-0000-7000-8000-0000000000ee";
  const outcomes = await db.client.submitTasks(
    [{ queue: "t1", id, spec: 1 }, { queue: "t1", id, spec: 2 }, { queue: "t2", priority: -1 }, { queue: "t2", after: [id], runAt: new Date(Date.now() + 1000), lease: 2000 }],
    { atomic: false },
  );
  assert.deepEqual(outcomes.map(({ outcome }) => outcome), ["inserted", "duplicate", "invalid", "inserted"]);
  await assert.rejects(db.client.submitTasks([{ queue: "t1", id }]), DuplicateError);
});

test("a spec that is too large is 54000, and nothing is lost", async () => {
  await assert.rejects(db.client.submit("large", "x".repeat(2 << 20)), (error) => sqlState(error) === "54000");
  assert.equal(await count("large"), 0);
});

test("a spec comes back as it was", async () => {
  let deep: unknown = "bottom";
  for (let depth = 0; depth < 500; depth++) deep = { deep };
  for (const spec of [9223372036854775807n, { n: [-9007199254740993n, 1.5] }, "👩‍🚀 żółw", deep, "", 0, false, [], 'quote " and \\ and { and NULL']) {
    const [many] = await db.client.submitMany("spec", [spec]);
    assert.deepEqual((await db.client.task(await db.client.submit("spec", spec))).spec, spec);
    assert.deepEqual((await db.client.task(many!)).spec, spec);
  }
});

test("a spec that JSON or PostgreSQL does not have is an error", async () => {
  await assert.rejects(db.client.submit("bad", "nul \0"), (error) => error instanceof ScyllaError && error.code === "22P05");
  await assert.rejects(db.client.submit("bad", null), (error) => sqlState(error) === "22023");
  await assert.rejects(db.client.submit("bad", () => 1), TypeError);
  assert.equal(await count("bad"), 0);
});

test("a full queue is 53400", async () => {
  await db.pool.query("select scylla.configure_queue('full', max_ready => 1)");
  await db.client.submit("full");
  await assert.rejects(db.client.submit("full"), QueueFullError);
  const others = new Client({ query: async () => { throw Object.assign(new Error("too many databases use scylla"), { code: "53400" }); } });
  await assert.rejects(others.submit("full"), (error) => error instanceof ScyllaError && !(error instanceof QueueFullError) && error.code === "53400");
});

test("a role without the privilege is told so", async () => {
  await db.pool.query("drop role if exists ts_nobody; create role ts_nobody");
  await transaction(async (tx) => {
    await tx.query("set local role ts_nobody");
    await assert.rejects(db.client.with(tx).submit("private"), NotPermittedError);
  });
  await db.pool.query("drop role ts_nobody");
});

test("cancel, delay, delete, resubmit, why", async () => {
  const id = await db.client.submit("life");
  assert.match(await db.client.why(id), /\w/);
  assert.equal(await db.client.delay(id, new Date(Date.now() + 60_000)), true);
  assert.equal((await db.client.task(id)).status, "waiting");
  assert.equal(await db.client.cancel(id), true);
  assert.equal(await db.client.cancel(id), false);
  const absent = "018f0000-0000-7000-8000-00000000dead";
  assert.deepEqual(await db.client.cancelMany([id, absent]), [false, null]);
  const [again] = await db.client.resubmit([id]);
  assert.equal((await db.client.task(again!)).status, "ready");
  assert.equal(await db.client.delete([id, again!]), 2);
  await assert.rejects(db.client.task(id), NotFoundError);
  await assert.rejects(db.client.cancel(absent), NotFoundError);
  await db.client.submitMany("life", [1, 2], { groupKeys: ["g", "g"] });
  assert.equal(await db.client.cancelGroup("life", "g"), 2);
});

test("a result is waited for, and keeps what a driver would round", async () => {
  const id = await db.client.submit("result", {}, { postResult: true });
  const waiting = db.client.result(id);
  const { rows: [row] } = await db.pool.query("select * from scylla.own_tasks('w', 'result')");
  await db.pool.query("select scylla.return_task($1, $2, result => '{\"n\": 9007199254740993}')", [row.id, row.token]);
  assert.deepEqual(await waiting, { n: 9007199254740993n });
  assert.deepEqual(await db.client.wait(id), { status: "completed", result: { n: 9007199254740993n }, errors: [] });
});

test("a wait ends with its time, its signal, or the task's failure", async () => {
  const id = await db.client.submit("wait", {}, { postResult: true });
  assert.equal(await db.client.wait(id, { timeout: 20 }), undefined);
  await assert.rejects(db.client.result(id, { timeout: 0 }), { name: "TimeoutError" });
  const controller = new AbortController();
  const waiting = db.client.wait(id, { signal: controller.signal });
  controller.abort(new Error("enough"));
  await assert.rejects(waiting, /enough/);
  await db.client.cancel(id);
  await assert.rejects(db.client.result(id), (error) => error instanceof TaskFailedError && error.status === "cancelled");
  await assert.rejects(db.client.wait(await db.client.submit("wait")), (error) => sqlState(error) === "55000");
});

test("a definition checks the spec and fills in queue and action", async () => {
  const zod = defineTask("typed", "mail", z.object({ to: z.string(), at: z.coerce.date().optional() }));
  const id = await db.client.submit(zod, { to: "a@example.com" }, { key: "typed" });
  const entry = await db.client.task(id);
  assert.deepEqual([entry.queue, entry.action, entry.spec, entry.key], ["typed", "mail", { to: "a@example.com" }, "typed"]);
  // @ts-expect-error: `to` is a string
  await assert.rejects(db.client.submit(zod, { to: 1 }), /invalid spec of typed\/mail: to: /);
  const valibot = defineTask("typed", "n", v.object({ n: v.number() }));
  assert.equal((await db.client.submitMany(valibot, [{ n: 1 }, { n: 2 }])).length, 2);
  // @ts-expect-error: `n` is missing
  await assert.rejects(db.client.submitMany(valibot, [{ n: 1 }, {}]), /invalid spec 1 of typed\/n/);
  assert.equal(await count("typed"), 3);
});

test("middleware goes around submissions, the first one outermost", async () => {
  const seen: string[] = [];
  const client = new Client(db.pool, {
    middleware: [
      async (submission, next) => {
        seen.push("a");
        return await next({ ...submission, meta: { ...submission.meta, tagged: true } });
      },
      async (submission, next) => {
        seen.push(`b ${submission.queue} ${JSON.stringify(submission.meta)}`);
        return await next(submission);
      },
    ],
  });
  const id = await client.submit("middle");
  await client.submitMany("middle", [1, 2]);
  assert.deepEqual(seen, ["a", 'b middle {"tagged":true}', "a", 'b middle {"tagged":true}']);
  assert.deepEqual(await db.value("select array_agg(meta->'tagged') from scylla.tasks where queue = 'middle'"), [true, true, true]);
  assert.equal((await client.task(id)).queue, "middle");
});
