import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { database, until, type Database } from "./lib/server.js";
import { workerProcess } from "./lib/processes.js";

let db: Database;
before(async () => void (db = await database()));
after(async () => await db[Symbol.asyncDispose]());

let queues = 0;
const queue = () => `p${++queues}`;

test("SIGTERM drains: what runs ends, what waits stays, status 0", async () => {
  const q = queue();
  await using worker = await workerProcess(db.config, { queues: q });
  const id = await db.client.submit(q, { ms: 400 });
  await worker.says("begin", { id });
  worker.process.kill("SIGTERM");
  await worker.says("log", { message: `scylla: worker ${(await worker.says("ready")).name} drains` });
  const later = await db.client.submit(q, {});
  assert.equal(await worker.ended(), 0);
  assert.equal((await db.client.task(id)).status, "completed");
  const entry = await db.client.task(later);
  assert.deepEqual([entry.status, entry.tries, entry.history], ["ready", 0, []]);
  assert.equal((await worker.says("stopped")).stats.completed, 1);
});

test("when grace is over handlers are stopped, and the tasks handed back without a try", async () => {
  const q = queue();
  await using worker = await workerProcess(db.config, { queues: q, grace: 300 });
  const ids = await db.client.submitMany(q, [{ ms: 60_000 }, { ms: 60_000, deaf: true }]);
  for (const id of ids) await worker.says("begin", { id });
  const since = performance.now();
  worker.process.kill("SIGINT");
  for (const id of ids) await worker.says("stop", { id, cause: "Shutdown" });
  assert.equal(await worker.ended(), 0);
  assert(performance.now() - since < 5_300, `${performance.now() - since} ms`); // grace + 5 s
  for (const id of ids) {
    const entry = await db.client.task(id);
    assert.deepEqual([entry.status, entry.tries], ["ready", 0]);
    assert.deepEqual(entry.history.map(({ type }) => type), ["TaskAssignment", "TaskYield"]);
  }
});

test("a second signal hands back every task at once", async () => {
  const q = queue();
  await using worker = await workerProcess(db.config, { queues: q });
  const ids = await db.client.submitMany(q, [{ ms: 60_000 }, { ms: 60_000, deaf: true }]);
  for (const id of ids) await worker.says("begin", { id });
  worker.process.kill("SIGTERM");
  await until("it drains", () => worker.said.some(({ message }) => message?.endsWith(" drains")));
  const since = performance.now();
  worker.process.kill("SIGTERM");
  assert.equal(await worker.ended(), 0);
  assert(performance.now() - since < 2_000, `${performance.now() - since} ms`);
  for (const id of ids) {
    const entry = await db.client.task(id);
    assert.deepEqual([entry.status, entry.tries], ["ready", 0]);
  }
});

test("drain_worker ends the process, status 0", async () => {
  const q = queue();
  await using worker = await workerProcess(db.config, { queues: q });
  assert.equal(await db.client.drainWorker((await worker.says("ready")).name), true);
  assert.equal(await worker.ended(), 0);
});

test("a process that was frozen for longer than its lease drops its result", async () => {
  const q = queue();
  await using frozen = await workerProcess(db.config, { queues: q, lease: 1_000 });
  const id = await db.client.submit(q, { ms: 300 }, { postResult: true });
  await frozen.says("begin", { id });
  frozen.process.kill("SIGSTOP");
  try {
    await using other = await workerProcess(db.config, { queues: q });
    await other.says("begin", { id, tries: 2 });
    assert.equal(await db.client.result(id), String(other.process.pid));
    frozen.process.kill("SIGCONT");
    // its own work may end first, or be stopped: either way the lease is lost
    await until("the task is out of its hands", () => frozen.said.some(({ event, id: of }) => of === id && (event === "stop" || event === "end")));
    for (const stop of frozen.said.filter(({ event }) => event === "stop")) assert.equal(stop.cause, "LeaseLost");
    other.process.kill("SIGTERM");
    await other.ended();
  } finally {
    frozen.process.kill("SIGCONT");
  }
  // it works on
  assert.equal(await db.client.result(await db.client.submit(q, {}, { postResult: true })), String(frozen.process.pid));
  frozen.process.kill("SIGTERM");
  assert.equal(await frozen.ended(), 0);
  const { stats } = await frozen.says("stopped");
  assert.deepEqual([stats.completed, stats.lost], [1, 1]);
  assert.equal((await db.client.task(id)).tries, 2);
});

test("a handler whose process was frozen hears LeaseLost", async () => {
  const q = queue();
  await using frozen = await workerProcess(db.config, { queues: q, lease: 1_000 });
  const id = await db.client.submit(q, { ms: 60_000 });
  await frozen.says("begin", { id });
  frozen.process.kill("SIGSTOP");
  try {
    await until("another worker owns it", async () => (await db.pool.query("select * from scylla.own_tasks('another', $1)", [q])).rows.length);
  } finally {
    frozen.process.kill("SIGCONT");
  }
  assert.equal((await frozen.says("stop", { id })).cause, "LeaseLost");
});

test("after kill -9 the task runs again when its lease is over", async () => {
  const q = queue();
  const id = await db.client.submit(q, { ms: 400 }, { lease: 1_000, postResult: true });
  await using killed = await workerProcess(db.config, { queues: q });
  await killed.says("begin", { id });
  killed.process.kill("SIGKILL");
  assert.equal(await killed.ended(), "SIGKILL");
  await using other = await workerProcess(db.config, { queues: q });
  assert.equal(await db.client.result(id), String(other.process.pid));
  const entry = await db.client.task(id);
  assert.deepEqual([entry.tries, entry.history.map(({ type }) => type)], [2, ["TaskAssignment", "TaskTimeout", "TaskAssignment"]]);
});
