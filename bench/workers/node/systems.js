// What each system is, for main.js: its schema, how tasks are added, and its own worker.
import { createPostgresBackend, Queue, runMigrations as migrateBull, Worker as BullWorker } from "bullmq";
import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import pg from "pg";
import { PgBoss } from "pg-boss";
import { Client, Worker } from "scylla-pg";
import { pgConnector } from "scylla-pg/pg";

const AHEAD = 500; // tasks that a worker may take at once, besides those that it runs
const many = (count, make) => Array.from({ length: count }, (_, n) => make(n));
const silent = { info() {}, warn() {}, error() {} };

export const systems = {
  scylla: (pool) => scylla(pool, 0),
  "scylla-prefetch": (pool) => scylla(pool, 1_500),

  // as its page on performance has it, where it is fastest
  graphile(pool) {
    const logger = new Logger(() => () => {});
    let utils;
    const tools = async () => (utils ??= await makeWorkerUtils({ pgPool: pool, logger }));
    const batching = { localQueue: { size: AHEAD }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
    return {
      left: "select count(*) as left from graphile_worker._private_jobs",
      remove: () => pool.query("drop schema if exists graphile_worker cascade"),
      install: () => runMigrations({ pgPool: pool, logger }),
      fill: async (count) =>
        (await tools()).addJobs(many(count, (n) => ({ identifier: "bench", payload: { n } }))),
      submit: async (payload) => (await tools()).addJob("bench", payload),
      async work(concurrency, handle) {
        const preset = { worker: { concurrentJobs: concurrency, ...batching } };
        const taskList = { bench: (payload) => handle(payload) };
        const runner = await run({ preset, pgPool: pool, taskList, noHandleSignals: true, logger });
        return () => runner.stop();
      },
      close: () => utils?.release(),
    };
  },

  // by batches, woken by notifications, fetching again at once while a batch was full
  pgboss(pool) {
    let boss;
    const started = async () => {
      if (!boss) {
        boss = new PgBoss({ ...connection(20), useListenNotify: true, supervise: false, schedule: false });
        boss.on("error", () => {});
        await boss.start();
      }
      return boss;
    };
    return {
      left: "select count(*) as left from pgboss.job where name = 'bench' and state < 'completed'",
      remove: () => pool.query("drop schema if exists pgboss cascade"),
      install: async () => (await started()).createQueue("bench", { notify: true }),
      fill: async (count) => (await started()).insert("bench", many(count, (n) => ({ data: { n } }))),
      submit: async (data) => (await started()).send("bench", data),
      async work(concurrency, handle) {
        const options = { batchSize: Math.max(concurrency, AHEAD), burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
        const each = async (jobs) => jobs.forEach((job) => handle(job.data));
        await (await started()).work("bench", options, each);
        return () => boss.offWork("bench", { wait: true });
      },
      close: () => boss?.stop({ graceful: true, wait: true }),
    };
  },

  // what is done is removed, as its page on PostgreSQL recommends
  bullmq(pool) {
    let queue;
    const open = () => (queue ??= new Queue("bench", { connection: connection(20) }, createPostgresBackend));
    return {
      left: "select count(*) as left from bullmq.job where state not in ('completed', 'failed')",
      remove: () => pool.query("drop schema if exists bullmq cascade"),
      async install() {
        const client = await pool.connect();
        await migrateBull(client);
        client.release();
      },
      fill: (count) => open().addBulk(many(count, (n) => ({ name: "bench", data: { n } }))),
      submit: (data) => open().add("bench", data),
      async work(concurrency, handle) {
        const options = { connection: connection(Math.min(concurrency + 1, 60)), concurrency, removeOnComplete: { count: 0 } };
        const worker = new BullWorker("bench", async (job) => handle(job.data), options, createPostgresBackend);
        worker.on("error", () => {});
        await worker.waitUntilReady();
        return () => worker.close();
      },
      close: () => queue?.close(),
    };
  },
};

function scylla(pool, prefetch) {
  const client = new Client(pool);
  return {
    left: "select count(*) as left from scylla.task",
    remove: () => pool.query("drop extension if exists scylla cascade"),
    install: () => pool.query("create extension scylla"),
    fill: (count) => client.submitMany("bench", many(count, (n) => ({ n }))),
    submit: (spec) => client.submit("bench", spec),
    async work(concurrency, handle) {
      const handlers = { "": (task) => handle(task.spec) };
      const options = { queues: "bench", concurrency, prefetch, logger: silent, handlers };
      const worker = new Worker(pgConnector(pg.Client), options);
      await worker.start();
      return () => worker.stop();
    },
  };
}

/** For what makes its own connections. */
function connection(max) {
  const { PGHOST: host, PGPORT: port, PGUSER: user, PGDATABASE: database } = process.env;
  return { host, port: Number(port), user, database, max };
}
