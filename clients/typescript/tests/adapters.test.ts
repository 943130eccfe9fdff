import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { PrismaPg } from "@prisma/adapter-pg";
import { drizzle as drizzlePg } from "drizzle-orm/node-postgres";
import { drizzle as drizzlePostgres } from "drizzle-orm/postgres-js";
import knexFactory from "knex";
import { Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import postgres from "postgres";
import { Client, DuplicateError, NotFoundError, Worker, type Queryable } from "scylla-pg";
import { fromDrizzle } from "scylla-pg/drizzle";
import { fromKnex } from "scylla-pg/knex";
import { fromKysely } from "scylla-pg/kysely";
import { fromPostgres, postgresConnector } from "scylla-pg/postgres";
import { fromPrisma } from "scylla-pg/prisma";
import { PrismaClient } from "./prisma/generated/client.js";
import { database, quiet, until, type Database } from "./lib/server.js";

let db: Database;
let url: string;
const closing: (() => unknown)[] = [];
before(async () => {
  db = await database();
  const { rows: [at] } = await db.pool.query("select current_setting('port') as port");
  url = `postgres://postgres@127.0.0.1:${at.port}/${db.config.database}`;
});
after(async () => {
  for (const close of closing) await close();
  await db[Symbol.asyncDispose]();
});

/** A driver: its database outside of transactions, and a transaction that ends as the callback does. */
interface Driver {
  db: Queryable;
  transaction(work: (tx: Queryable) => Promise<void>): Promise<unknown>;
}

const drivers: Record<string, () => Driver | Promise<Driver>> = {
  "pg": () => ({
    db: db.pool,
    transaction: async (work) => {
      const client = await db.pool.connect();
      try {
        await client.query("begin");
        await work(client);
        await client.query("commit");
      } catch (error) {
        await client.query("rollback");
        throw error;
      } finally {
        client.release();
      }
    },
  }),
  "postgres.js": () => {
    const sql = postgres(url, { max: 3, onnotice: () => {} });
    closing.push(() => sql.end());
    return { db: fromPostgres(sql), transaction: async (work) => await sql.begin(async (tx) => await work(fromPostgres(tx))) };
  },
  "Knex": () => {
    const knex = knexFactory({ client: "pg", connection: url });
    closing.push(() => knex.destroy());
    return { db: fromKnex(knex), transaction: async (work) => await knex.transaction(async (tx) => await work(fromKnex(tx))) };
  },
  "Kysely": () => {
    const kysely = new Kysely<object>({ dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: url, max: 3 }) }) });
    closing.push(() => kysely.destroy());
    return { db: fromKysely(kysely), transaction: async (work) => await kysely.transaction().execute(async (tx) => await work(fromKysely(tx))) };
  },
  "Drizzle with pg": () => {
    const drizzle = drizzlePg(db.pool);
    return { db: fromDrizzle(drizzle), transaction: async (work) => await drizzle.transaction(async (tx) => await work(fromDrizzle(tx))) };
  },
  "Drizzle with postgres.js": () => {
    const sql = postgres(url, { max: 3, onnotice: () => {} });
    closing.push(() => sql.end());
    const drizzle = drizzlePostgres(sql);
    return { db: fromDrizzle(drizzle), transaction: async (work) => await drizzle.transaction(async (tx) => await work(fromDrizzle(tx))) };
  },
  "Prisma": () => {
    const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: url }) });
    closing.push(() => prisma.$disconnect());
    return { db: fromPrisma(prisma), transaction: async (work) => await prisma.$transaction(async (tx) => await work(fromPrisma(tx))) };
  },
};

for (const [name, open] of Object.entries(drivers)) {
  describe(name, () => {
    let driver: Driver;
    let client: Client;
    before(async () => {
      driver = await open();
      client = new Client(driver.db);
    });
    const count = async () => await db.value<number>("select count(*)::int from scylla.tasks where queue = $1", [name]);

    test("a committed transaction submits, one that is rolled back does not", async () => {
      await driver.transaction(async (tx) => {
        await client.with(tx).submit(name, { n: 2n ** 60n, text: "a ? and $1 and 'x' :y" }, { key: "k", delay: 3_600_000, retryInterval: 1_500, meta: { a: [1] }, priority: 9 });
        await client.with(tx).submitMany(name, [{ a: '"' }, ["\\"]], { groupKeys: ["g", null] });
        assert.equal(await count(), 0);
      });
      assert.equal(await count(), 3);
      const entry = await client.task((await client.taskId(name, "k"))!);
      assert.deepEqual([entry.spec, entry.status, entry.priority], [{ n: 2n ** 60n, text: "a ? and $1 and 'x' :y" }, "waiting", 9]);
      await assert.rejects(driver.transaction(async (tx) => {
        await client.with(tx).submit(name);
        throw new Error("no");
      }), /no/);
      assert.equal(await count(), 3);
    });

    test("an error of the server has its SQLSTATE", async () => {
      await client.submit(name, {}, { key: "taken" });
      await assert.rejects(client.submit(name, {}, { key: "taken" }), (error) => {
        assert(error instanceof DuplicateError, String(error));
        assert.equal(error.code, "23505");
        assert.match(error.message, /key "taken" already exists|duplicate key/);
        return true;
      });
      await assert.rejects(client.cancel("018f0000-0000-7000-8000-00000000dead"), NotFoundError);
      await assert.rejects(driver.transaction(async (tx) => void (await client.with(tx).submit(name, {}, { key: "taken" }))), DuplicateError);
    });

    test("each method works, and a result is waited for", async () => {
      const id = await client.submit(name, {}, { action: "result", postResult: true });
      assert.equal(await client.wait(id, { timeout: 10 }), undefined);
      const waiting = client.wait(id);
      const { rows: [row] } = await db.pool.query("select * from scylla.own_tasks('w', $1, actions => '{result}')", [name]);
      await db.pool.query("select scylla.return_task($1, $2, result => '{\"n\": 9007199254740993}')", [row.id, row.token]);
      assert.deepEqual(await waiting, { status: "completed", result: { n: 9007199254740993n }, errors: [] });
      const [a, b] = await client.submitTasks([{ queue: name, spec: { x: 1 } }, { queue: name, lease: 1_000 }]);
      assert.deepEqual(await client.cancelMany([a!.id!, b!.id!]), [true, true]);
      const resubmitted = await client.resubmit([a!.id!]);
      assert.equal(await client.delay(resubmitted[0]!, new Date(Date.now() + 60_000)), true);
      assert.match(await client.why(resubmitted[0]!), /\w/);
      assert.equal(await client.delete([resubmitted[0]!]), 1);
      assert.equal(await client.cancelGroup(name, "no such"), 0);
      assert.equal(await client.drainWorker("no such"), false);
    });
  });
}

test("a worker through postgres.js survives the end of its connections", async () => {
  let begun = 0;
  const worker = new Worker(postgresConnector(postgres, url, { onnotice: () => {} }), {
    queues: ["pj1", "pj2"], concurrency: 5, lease: 2_000, grace: 0, logger: quiet,
    handlers: { "": async (task) => { begun++; await new Promise((resolve) => setTimeout(resolve, 2)); return task.spec; }, big: () => 2n ** 60n },
  });
  await worker.start();
  try {
    await db.client.submitMany("pj1", Array.from({ length: 1_000 }, (_, n) => ({ n })));
    for (const at of [100, 300, 500]) {
      await until("some have run", () => begun >= at);
      assert((await db.value("select count(pg_terminate_backend(pid))::int from pg_stat_activity where application_name like 'scylla-pg%' and datname = current_database()")) >= 1);
    }
    await until("all have completed", async () => (await db.value("select count(*)::int from scylla.tasks where queue = 'pj1' and status = 'completed'")) === 1_000);
    assert.equal(await db.client.result(await db.client.submit("pj2", {}, { action: "big", postResult: true })), 2n ** 60n);
    assert(worker.stats.reconnects >= 3);
  } finally {
    await worker.stop();
  }
  assert.equal(await db.value("select count(*)::int from pg_stat_activity where application_name like 'scylla-pg%' and datname = current_database() and state <> 'active'"), 0);
});
