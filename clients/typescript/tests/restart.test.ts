import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { database, server, until, type Database, type Server } from "./lib/server.js";
import { workerProcess } from "./lib/processes.js";

// what an administrator of small leases would have: every lease is in the table at once
let own: Server;
let db: Database;
before(async () => {
  own = await server();
  db = await database(own.config);
});
after(async () => await own[Symbol.asyncDispose]());

const counts = async (q: string) => await db.value<Record<string, number>>(
  "select json_object_agg(status, n) from (select status, count(*)::int n from scylla.tasks where queue = $1 group by 1) x", [q]);

test("through two immediate restarts and a kill -9 every task ends, none twice within a lease", async () => {
  const q = "restart";
  const lease = 2_000;
  let acknowledged = 0;
  let uncertain = 0; // their submission failed: they are there or not
  const submit = async (count: number) => {
    const submitted = db.client.submitMany(q, Array.from({ length: count }, () => ({ ms: 5 })));
    await submitted.then(() => void (acknowledged += count), () => void (uncertain += count));
  };
  await submit(1_000);
  const options = { queues: q, concurrency: 8, lease };
  const workers = [await workerProcess(db.config, options), await workerProcess(db.config, options)];
  try {
    const ended = () => workers.map(({ said }) => said.filter(({ event }) => event === "end").length);
    // there is work for each, however long one of them takes to be connected again
    const eachRuns = async () => {
      const before = ended();
      await until("each has run some more", async () => {
        await submit(10);
        return ended().every((count, at) => count >= before[at]! + 100);
      });
    };
    for (let restarts = 0; restarts < 2; restarts++) {
      await eachRuns();
      await own.pg("stop", "immediate");
      await own.pg("restart");
    }
    await eachRuns();
    workers[0]!.process.kill("SIGKILL");
    workers.push(await workerProcess(db.config, options));
    await until("all have ended", async () => {
      const { completed, ...others } = (await counts(q).catch(() => undefined)) ?? { ready: 1 };
      return completed && Object.keys(others).length === 0;
    }, 60_000);
    const { completed, ...others } = await counts(q);
    assert.deepEqual(others, {});
    assert(completed! >= acknowledged && completed! <= acknowledged + uncertain, `${completed} of ${acknowledged}`);
    // each completed task has one result, and history shows an expiry or the restart between two ownerships
    const early = await db.value(
      `select count(*)::int from scylla.tasks t,
         lateral (select e ->> '_typ' as typ, (e ->> 'time')::timestamptz as at, lag(e ->> '_typ') over w as before,
                    lag((e ->> 'time')::timestamptz) over w as before_at
                  from jsonb_array_elements(t.history) with ordinality h(e, n) window w as (order by n)) h
       where t.queue = $1 and h.typ = 'TaskAssignment' and h.before = 'TaskAssignment' and h.at - h.before_at < '1.9 s'`, [q]);
    assert.equal(early, 0);
    for (const { process } of workers.slice(1)) process.kill("SIGTERM");
    for (const worker of workers.slice(1)) assert.equal(await worker.ended(), 0);
    const stats = workers.slice(1).map(({ said }) => said.at(-1)?.stats);
    assert(stats[0].reconnects >= 2);
  } finally {
    for (const worker of workers) await worker[Symbol.asyncDispose]();
  }
});

test("handlers go on while the server is away, and their results are kept", async () => {
  const q = "away";
  await using worker = await workerProcess(db.config, { queues: q, lease: 30_000 });
  const id = await db.client.submit(q, { ms: 1_500 });
  await worker.says("begin", { id });
  // leases are in the table after a second: this one survives
  await until("the lease is in the table", async () => (await db.client.task(id)).owner !== null);
  await new Promise((resolve) => setTimeout(resolve, 1_200));
  await own.pg("stop", "fast");
  await worker.says("end", { id });
  assert(!worker.said.some(({ event }) => event === "stop"));
  await own.pg("restart");
  await until("the result has arrived", async () => (await db.client.task(id).catch(() => undefined))?.status === "completed");
  assert.equal((await db.client.task(id)).tries, 1);
});

test("with the server frozen, handlers are stopped at their fence, and work goes on afterwards", async () => {
  const q = "frozen";
  await using worker = await workerProcess(db.config, { queues: q, lease: 1_500 });
  const id = await db.client.submit(q, { ms: 4_000 });
  await worker.says("begin", { id });
  const postmaster = Number(readFileSync(join(own.dir, "postmaster.pid"), "utf8").split("\n")[0]);
  const backends = await db.value<number[]>("select array_agg(pid) from pg_stat_activity where application_name like 'scylla-pg typescript%'");
  for (const pid of [...backends, postmaster]) process.kill(pid, "SIGSTOP");
  try {
    const since = performance.now();
    assert.equal((await worker.says("stop", { id })).cause, "LeaseLost");
    assert(performance.now() - since < 1_600);
  } finally {
    for (const pid of [postmaster, ...backends]) process.kill(pid, "SIGCONT");
  }
  await until("it has completed", async () => (await db.client.task(id)).status === "completed", 40_000);
});

test("a closed database hands out nothing, and the worker goes on when it is opened", async () => {
  const q = "closed";
  await using worker = await workerProcess(db.config, { queues: q });
  await db.pool.query("select scylla.open(false)");
  const id = await db.client.submit(q, {});
  await db.pool.query("select pg_sleep(0.3)");
  assert.equal((await db.client.task(id)).status, "ready");
  assert(!worker.said.some(({ event }) => event === "begin"));
  await db.pool.query("select scylla.open()");
  await until("it has completed", async () => (await db.client.task(id)).status === "completed");
  assert.equal(worker.said.filter(({ level }) => level === "error").length, 0);
});
