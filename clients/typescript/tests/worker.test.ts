import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import pg from "pg";
import postgres from "postgres";
import { z } from "zod";
import {
  Abort, Cancelled, handle, IncompatibleError, LeaseLost, Shutdown, Snooze, TimeLimitExceeded, VERSION, Worker,
  type Connection, type Connector,
} from "scylla-pg";
import { pgConnector } from "scylla-pg/pg";
import { postgresConnector } from "scylla-pg/postgres";
import { database, deferred, quiet, stopped, until, type Database } from "./lib/server.js";

let db: Database;
before(async () => void (db = await database()));
after(async () => await db[Symbol.asyncDispose]());

let queues = 0;
const queue = () => `q${++queues}`;
const settled = async (q: string, status = "completed") =>
  await db.value<number>("select count(*)::int from scylla.tasks where queue = $1 and status = $2", [q, status]);

test("what a handler returns is the result", async () => {
  const q = queue();
  await using worker = db.worker({
    queues: q,
    handlers: {
      value: (task) => ({ n: 2n ** 60n, spec: task.spec }),
      nothing: async () => {},
      null: () => null,
    },
  });
  await worker.start();
  const submit = (action: string) => db.client.submit(q, "s", { action, postResult: true });
  assert.deepEqual(await db.client.result(await submit("value")), { n: 2n ** 60n, spec: "s" });
  assert.equal(await db.client.result(await submit("nothing")), null);
  assert.equal(await db.client.result(await submit("null")), null);
});

test("a handler gets what the task has", async () => {
  const q = queue();
  const id = await db.client.submit(q, { a: 1 }, { key: "k", groupKey: "g", priority: 3, maxTries: 4, meta: { m: 1 } });
  const got = deferred<object>();
  await using worker = db.worker({ queues: q, handlers: { "": (task) => got.resolve({ ...task, deadline: task.deadline }) } });
  await worker.start();
  const { created, deadline, progress, ...rest } = (await got.promise) as Record<string, any>;
  assert.deepEqual(rest, { id, queue: q, action: "", spec: { a: 1 }, key: "k", groupKey: "g", priority: 3, tries: 1, maxTries: 4, numFailures: 0, meta: { m: 1 } });
  assert(Math.abs(created - Date.now()) < 10_000 && deadline > created);
});

test("an error is a retry, with its stack; then tries are exhausted", async () => {
  const q = queue();
  await using worker = db.worker({
    queues: q,
    handlers: {
      "": function failing() {
        throw Object.assign(new Error("no\0t now", { cause: new RangeError("inner") }), { code: "E_LATER" });
      },
    },
  });
  await worker.start();
  const settled = await db.client.wait(await db.client.submit(q, {}, { maxTries: 2, retryInterval: 0, postResult: true }));
  assert.equal(settled?.status, "aborted");
  assert.deepEqual(settled.errors.map(({ code }) => code), ["E_LATER", "E_LATER", "tries_exhausted"]);
  const [error] = settled.errors;
  assert.equal(error!.description, "no\ufffdt now");
  assert.match(String(error!.args.traceback), /failing/);
  assert.match(String(error!.args.cause), /RangeError: inner/);
  await until("both are counted", () => worker.stats.retried === 2);
  assert.equal(worker.stats.owned, 2);
});

test("whatever a handler throws is an error of its task, and of no other", async () => {
  const q = queue();
  const odd = [undefined, "text", Object.create(null), Object.assign(new Error(), { message: Symbol("s"), stack: 1 }), new Abort(1 as never, undefined, { n: 2n ** 60n })];
  await using worker = db.worker({ queues: q, handlers: { "": (task) => { throw odd[task.spec as number]; } } });
  await worker.start();
  const errors: unknown[] = [];
  for (const at of odd.keys()) {
    const end = await db.client.wait(await db.client.submit(q, at, { maxTries: 1, postResult: true }));
    assert.equal(end?.status, "aborted");
    errors.push([end.errors[0]!.code, end.errors[0]!.description, end.errors[0]!.args.n]);
  }
  assert.deepEqual(errors, [["error", "undefined", undefined], ["error", "text", undefined], ["error", "unprintable", undefined], ["Error", "Symbol(s)", undefined], ["1", "", 2n ** 60n]]);
});

test("Abort is final", async () => {
  const q = queue();
  await using worker = db.worker({ queues: q, handlers: { "": () => Promise.reject(new Abort("bad_address", "no such street", { line: 2 })) } });
  await worker.start();
  const settled = await db.client.wait(await db.client.submit(q, {}, { postResult: true }));
  assert.equal(settled?.status, "aborted");
  assert.deepEqual(settled.errors, [{ code: "bad_address", description: "no such street", args: { line: 2 } }]);
  assert.equal(worker.stats.owned, 1);
});

test("Snooze hands the task back for later, and the try is not counted", async () => {
  const q = queue();
  const tries: number[] = [];
  await using worker = db.worker({
    queues: q,
    handlers: {
      "": (task) => {
        tries.push(task.tries);
        if (tries.length < 3) throw new Snooze(tries.length === 1 ? 100 : new Date(Date.now() + 100));
      },
    },
  });
  await worker.start();
  const since = performance.now();
  await db.client.result(await db.client.submit(q, {}, { maxTries: 1, postResult: true }));
  assert.deepEqual(tries, [1, 1, 1]);
  assert(performance.now() - since >= 190);
  assert.equal(worker.stats.yielded, 2);
});

test("an action without a handler is not owned; * handles any", async () => {
  const q = queue();
  const other = await db.client.submit(q, {}, { action: "other" });
  const known = await db.client.submit(q, {}, { action: "known", postResult: true });
  const worker = db.worker({ queues: q, handlers: { known: () => "named" } });
  await worker.start();
  assert.equal(await db.client.result(known), "named");
  assert.equal((await db.client.task(other)).status, "ready");
  assert.equal(worker.stats.owned, 1);
  await worker.stop();
  await using any = db.worker({ queues: q, handlers: { known: () => "named", "*": (task) => task.action } });
  await any.start();
  await until("the other one has run", async () => (await db.client.task(other)).result === "other");
});

test("names from Object.prototype are no handlers", async () => {
  const q = queue();
  const id = await db.client.submit(q, {}, { action: "constructor", postResult: true });
  await using worker = db.worker({ queues: q, handlers: { "*": () => "any" } });
  await worker.start();
  assert.equal(await db.client.result(id), "any");
});

test("the concurrency is reached and never exceeded", async () => {
  const q = queue();
  let running = 0;
  let most = 0;
  await db.client.submitMany(q, Array.from({ length: 300 }, (_, n) => n % 7));
  await using worker = db.worker({
    queues: q, concurrency: 7,
    handlers: {
      "": async (task) => {
        most = Math.max(most, ++running);
        await new Promise((resolve) => setTimeout(resolve, task.spec as number));
        running--;
      },
    },
  });
  await worker.start();
  await until("all have run", async () => (await settled(q)) === 300);
  assert.equal(most, 7);
  // from the history: to count the tasks that run looks at the board in pieces, not at one moment
  const leases = `
    select max(leases)::int from (
      select sum(change) over (order by time, change) as leases from scylla.tasks,
        lateral (values ((history -> -1 ->> 'time')::timestamptz, 1), (updated, -1)) as at (time, change)
      where queue = $1) as counted`;
  assert.equal(await db.value(leases, [q]), 7);
  assert.equal(worker.stats.owned, 300);
});

test("with prefetch more are owned, and not more run", async () => {
  const q = queue();
  await db.client.submitMany(q, [1, 2, 3, 4, 5, 6]);
  const go = deferred();
  await using worker = db.worker({ queues: q, concurrency: 2, prefetch: 3, handlers: { "": () => go.promise } });
  await worker.start();
  await until("five are owned", () => worker.stats.owned === 5);
  assert.equal(worker.running, 2);
  go.resolve();
  await until("all have run", async () => (await settled(q)) === 6);
});

test("sixteen queues are served, the first ones first", async () => {
  const names = Array.from({ length: 16 }, queue);
  for (const name of [...names].reverse()) await db.client.submit(name);
  const order: string[] = [];
  await using worker = db.worker({ queues: names, concurrency: 1, handlers: { "": (task) => void order.push(task.queue) } });
  await worker.start();
  await until("all have run", () => order.length === 16);
  assert.deepEqual(order, names);
  await db.client.submit(names[9]!);
  await until("one more has run", () => order.length === 17);
  assert.equal(order[16], names[9]);
  assert.throws(() => db.worker({ queues: [...names, "one more"], handlers: { "": () => {} } }), RangeError);
});

test("by priority, then by age; a group of one at a time keeps its order", async () => {
  const q = queue();
  await db.pool.query("select scylla.configure_queue($1, max_running_per_group => 1)", [q]);
  const specs = Array.from({ length: 40 }, (_, n) => n);
  await db.client.submitMany(q, specs, { groupKeys: specs.map((n) => `g${n % 4}`) });
  const order: number[] = [];
  await using worker = db.worker({ queues: q, handlers: { "": async (task) => {
    order.push(task.spec as number);
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 5));
  } } });
  await worker.start();
  await until("all have run", async () => (await settled(q)) === 40);
  for (const group of [0, 1, 2, 3]) assert.deepEqual(order.filter((n) => n % 4 === group), specs.filter((n) => n % 4 === group));
  const p = queue();
  for (const priority of [1, 3, 2]) await db.client.submit(p, priority, { priority });
  const byPriority: unknown[] = [];
  await using other = db.worker({ queues: p, concurrency: 1, handlers: { "": (task) => void byPriority.push(task.spec) } });
  await other.start();
  await until("all have run", () => byPriority.length === 3);
  assert.deepEqual(byPriority, [3, 2, 1]);
});

test("a handler with a schema gets its output; a spec that does not fit is a retry", async () => {
  const q = queue();
  await using worker = db.worker({
    queues: q,
    handlers: { "": handle(z.object({ at: z.coerce.date() }), (task) => task.spec.at.getTime()) },
  });
  await worker.start();
  assert.equal(await db.client.result(await db.client.submit(q, { at: "2026-01-01T00:00:00Z" }, { postResult: true })), Date.UTC(2026, 0));
  const settled = await db.client.wait(await db.client.submit(q, { at: "never" }, { postResult: true, maxTries: 2, retryInterval: 0, retryJitter: 0 }));
  assert(settled);
  assert.deepEqual(settled.errors.slice(0, 2).map(({ code }) => code), ["invalid_spec", "invalid_spec"]);
  assert.match(settled.errors[0]!.description, /^at: /);
});

test("middleware goes around handlers, and hears their errors", async () => {
  const q = queue();
  const seen: string[] = [];
  await using worker = db.worker({
    queues: q,
    handlers: { ok: () => "value", bad: () => { throw new Abort("x"); } },
    middleware: [
      async (task, next) => {
        seen.push(`begin ${task.action}`);
        try {
          return `[${await next()}]`;
        } finally {
          seen.push(`end ${task.action}`);
        }
      },
      async (_, next) => `(${await next()})`,
    ],
  });
  await worker.start();
  assert.equal(await db.client.result(await db.client.submit(q, {}, { action: "ok", postResult: true })), "[(value)]");
  assert.equal((await db.client.wait(await db.client.submit(q, {}, { action: "bad", postResult: true })))?.status, "aborted");
  assert.deepEqual(seen, ["begin ok", "end ok", "begin bad", "end bad"]);
});

test("a result that is refused aborts or retries its own task, and no other", async () => {
  const q = queue();
  const circle: Record<string, unknown> = {};
  circle.self = circle;
  const values: Record<string, unknown> = { nul: "\0", huge: "x".repeat(2 << 20), half: "\ud800", circle, good: 1 };
  const go = deferred();
  await using worker = db.worker({ queues: q, handlers: { "*": async (task) => {
    await go.promise;
    if (task.action === "args") throw new Abort("bad_args", "kept?", { nul: "\0" });
    return values[task.action];
  } } });
  await worker.start();
  const ids: Record<string, string> = {};
  for (const action of [...Object.keys(values), "args"]) ids[action] = await db.client.submit(q, {}, { action, maxTries: 1, postResult: true });
  await until("all run", () => worker.running === 6);
  go.resolve();
  assert.equal(await db.client.result(ids.good!), 1);
  for (const [action, code] of [["nul", "invalid_result"], ["huge", "invalid_result"], ["half", "invalid_result"], ["circle", "TypeError"], ["args", "invalid_error"]] as const) {
    const end = await db.client.wait(ids[action]!);
    assert.deepEqual([end?.status, end?.errors[0]?.code], ["aborted", code], action);
  }
});

test("a task of three leases is kept, and its progress is seen", async () => {
  const q = queue();
  await using worker = db.worker({ queues: q, lease: 600, handlers: { "": async (task) => {
    const deadline = task.deadline!;
    task.progress(0.5);
    assert.throws(() => task.progress(2), RangeError);
    const stop = stopped(task.signal);
    // three leases: until the deadline has moved on by as much
    await until("three leases", () => task.signal.aborted || task.deadline!.getTime() - deadline.getTime() > 1_800);
    return task.signal.aborted ? String(await stop) : "kept";
  } } });
  await worker.start();
  const id = await db.client.submit(q, {}, { postResult: true });
  await until("progress is seen", async () => (await db.client.task(id)).progress === 0.5);
  assert.equal(await db.client.result(id), "kept");
  const entry = await db.client.task(id);
  assert.equal(entry.tries, 1);
  assert.deepEqual(entry.history.map(({ type }) => type), ["TaskAssignment"]);
});

test("a cancel is heard within 200 ms, idle or full", async () => {
  for (const concurrency of [10, 1]) {
    const q = queue();
    const begun = deferred();
    const heard = deferred<unknown>();
    await using worker = db.worker({ queues: q, concurrency, handlers: { "": async (task) => {
      begun.resolve();
      heard.resolve(await stopped(task.signal));
    } } });
    await worker.start();
    const id = await db.client.submit(q);
    await begun.promise;
    if (concurrency === 1) {
      await db.client.submit(q); // known to be there, so that the worker waits for signals only
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    const since = performance.now();
    await db.client.cancel(id);
    const cause = await heard.promise;
    const ms = performance.now() - since;
    assert(cause instanceof Cancelled, String(cause));
    assert(ms < 200, `${ms} ms`);
    assert.equal((await db.client.task(id)).status, "cancelled");
    await until("it is counted", () => worker.stats.cancelled === 1);
  }
});

test("a deleted task stops its handler", async () => {
  const q = queue();
  const begun = deferred();
  const heard = deferred<unknown>();
  await using worker = db.worker({ queues: q, handlers: { "": async (task) => {
    begun.resolve();
    heard.resolve(await stopped(task.signal));
    return "of no interest";
  } } });
  await worker.start();
  const id = await db.client.submit(q);
  await begun.promise;
  await db.client.delete([id]);
  assert((await heard.promise) instanceof Cancelled);
  await until("the place is free", () => worker.running === 0);
  assert.equal(worker.stats.completed, 0);
});

test("a lease that another worker has got stops the handler", async () => {
  const q = queue();
  const begun = deferred();
  const heard = deferred<unknown>();
  const go = deferred(); // it keeps its only place, so that it does not own the task again
  await using worker = db.worker({ queues: q, concurrency: 1, handlers: { "": async (task) => {
    begun.resolve();
    heard.resolve(await stopped(task.signal));
    await go.promise;
  } } });
  await worker.start();
  await db.client.submit(q);
  await begun.promise;
  await db.pool.query("select scylla.release_worker($1)", [worker.name]);
  assert.equal((await db.pool.query("select * from scylla.own_tasks('another', $1)", [q])).rows.length, 1);
  const cause = await heard.promise;
  assert(cause instanceof LeaseLost);
  assert.match(cause.message, /over: lost/);
  go.resolve();
  await until("the place is free", () => worker.running === 0);
  assert.deepEqual([worker.stats.lost, worker.stats.completed], [1, 0]);
});

test("a result that comes after 0.9 of the lease without a heartbeat is dropped", async () => {
  const q = queue();
  const cell = new Int32Array(new SharedArrayBuffer(4));
  await using worker = db.worker({ queues: q, lease: 1_000, handlers: { "": (task) => {
    if (task.tries > 1) return "second";
    Atomics.wait(cell, 0, 0, 1_300); // blocks the event loop, so no timer fires either
    return "late";
  } } });
  await worker.start();
  assert.equal(await db.client.result(await db.client.submit(q, {}, { postResult: true })), "second");
  assert.deepEqual([worker.stats.lost, worker.stats.owned], [1, 2]);
});

test("a handler's own limit stops it, and is a retry", async () => {
  const q = queue();
  const heard = deferred<unknown>();
  await using worker = db.worker({ queues: q, handlers: {
    listens: handle(z.any(), async (task) => {
      heard.resolve(await stopped(task.signal));
      throw task.signal.reason;
    }, { timeLimit: 50 }),
    quick: handle(z.any(), () => "in time", { timeLimit: 5_000 }),
  } });
  await worker.start();
  const id = await db.client.submit(q, {}, { action: "listens", maxTries: 1, postResult: true });
  assert((await heard.promise) instanceof TimeLimitExceeded);
  const end = await db.client.wait(id);
  assert.equal(end?.errors[0]?.code, "time_limit");
  assert.equal(await db.client.result(await db.client.submit(q, {}, { action: "quick", postResult: true })), "in time");
});

test("stop gives handlers their grace, and hands back the rest without a try", async () => {
  const q = queue();
  const heard = deferred<unknown>();
  const quick = deferred();
  const worker = db.worker({ queues: q, concurrency: 2, prefetch: 1, grace: 300, handlers: {
    quick: () => quick.promise,
    slow: async (task) => {
      heard.resolve(await stopped(task.signal));
      throw new Error("stopped");
    },
  } });
  const ids: string[] = [];
  for (const action of ["quick", "slow", "slow"]) ids.push(await db.client.submit(q, {}, { action }));
  await worker.start();
  await until("all are owned", () => worker.stats.owned === 3);
  const stopping = worker.stop();
  quick.resolve();
  assert((await heard.promise) instanceof Shutdown);
  await stopping;
  await worker.finished;
  const entries = await Promise.all(ids.map((id) => db.client.task(id)));
  assert.deepEqual(entries.map(({ status, tries }) => [status, tries]), [["completed", 1], ["ready", 0], ["ready", 0]]);
  assert.equal(await db.value("select count(*)::int from pg_stat_activity where application_name like '%' || $1", [worker.name]), 0);
});

test("drain_worker stops a worker", async () => {
  const q = queue();
  const go = deferred();
  const worker = db.worker({ queues: q, grace: 10_000, handlers: { "": () => go.promise } });
  await worker.start();
  const id = await db.client.submit(q);
  await until("it runs", () => worker.running === 1);
  assert.equal(await db.client.drainWorker(worker.name), true);
  const later = await db.client.submit(q);
  await until("it is draining", async () => await db.value("select bool_or(draining) from scylla.workers where worker = $1", [worker.name]));
  go.resolve();
  await worker.finished;
  assert.equal((await db.client.task(id)).status, "completed");
  assert.equal((await db.client.task(later)).status, "ready");
});

/** A connector that notes what is sent, and may change it. */
function recording(sent: string[], change = (_: string, values?: (string | null)[]) => values): Connector {
  const inner = pgConnector(pg.Client, db.config);
  return {
    async connect(name): Promise<Connection> {
      const connection = await inner.connect(name);
      return {
        ...connection,
        query: (text, values) => {
          sent.push(text);
          return connection.query(text, change(text, values));
        },
      };
    },
  };
}

test("an idle worker sends one statement per wait and nothing else", async () => {
  const q = queue();
  const sent: string[] = [];
  const lengths = new Set<string | null | undefined>();
  // the same with waits of a tenth of a second, to see many
  const connector = recording(sent, (text, values) => {
    if (!text.startsWith("call") || !values || values[3] === "{}") return values;
    lengths.add(values[2]);
    return [values[0]!, values[1]!, "100 milliseconds", values[3]!];
  });
  await using worker = new Worker(connector, { queues: q, handlers: { "": () => {} }, logger: quiet, grace: 0 });
  await worker.start();
  await until("many waits", () => sent.length > 12);
  const kinds = sent.map((text) => /about|own_tasks|wait_for_event|heartbeat|return_many/.exec(text)?.[0]);
  const waits = kinds.filter((kind) => kind === "wait_for_event").length;
  assert.deepEqual(kinds.filter((kind) => kind !== "wait_for_event"), ["about", "heartbeat", "own_tasks"], kinds.join());
  assert(waits >= 10);
  assert.deepEqual([...lengths], ["30000 milliseconds"]);
  assert.equal(worker.stats.statements, sent.length);
});

test("a worker has one connection that waits, and four at most for short calls", async () => {
  const q = queue();
  await db.client.submitMany(q, Array.from({ length: 15_000 }, (_, n) => n));
  let open = 0;
  let most = 0;
  const inner = pgConnector(pg.Client, db.config);
  const connector: Connector = {
    async connect(name): Promise<Connection> {
      const connection = await inner.connect(name);
      most = Math.max(most, ++open);
      connection.onEnd(() => open--);
      return { ...connection, query: async (text, values) => {
        // a server far away: many calls are under way
        await new Promise((resolve) => setTimeout(resolve, 20));
        return await connection.query(text, values);
      } };
    },
  };
  const worker = new Worker(connector, { queues: q, concurrency: 2_000, logger: quiet, handlers: { "": async () => await new Promise((resolve) => setTimeout(resolve, 2)) } });
  await worker.start();
  await until("all have run", () => worker.stats.completed === 15_000);
  const names = await db.value("select array_agg(distinct application_name) from pg_stat_activity where application_name like '%' || $1", [worker.name]);
  await worker.stop();
  assert.deepEqual(names, [`scylla-pg typescript/${VERSION} ${worker.name}`.slice(0, 63)]);
  assert.equal(most, 1 + 4 - 1); // heartbeats were not needed
  assert.equal(open, 0);
});

test("every connection is terminated, again and again, and nothing is lost", async () => {
  const q = queue();
  const total = 3_000;
  const ran = new Map<unknown, number>();
  await using worker = db.worker({ queues: q, concurrency: 20, lease: 2_000, handlers: { "": async (task) => {
    ran.set(task.id, (ran.get(task.id) ?? 0) + 1);
    await new Promise((resolve) => setTimeout(resolve, 5));
  } } });
  await worker.start();
  await db.client.submitMany(q, Array.from({ length: total }, (_, n) => n));
  for (let round = 1; round <= 4; round++) {
    await until("some more have run", () => ran.size >= round * 400);
    const ended = await db.value("select count(pg_terminate_backend(pid))::int from pg_stat_activity where application_name like '%' || $1", [worker.name]);
    assert(ended >= 1);
    // or the next end would be one of the same outage
    await until("it is connected again", () => worker.stats.reconnects >= round);
  }
  await until("all have completed", async () => (await settled(q)) === total);
  assert.equal(ran.size, total);
  // a task is run again only when its ownership was lost on the way, or its result
  const again = [...ran.values()].filter((times) => times > 1).length;
  assert(again <= 4 * 60, `${again} ran twice`);
  assert(worker.stats.reconnects >= 4);
});

test("a return whose answer is lost counts once", async () => {
  const q = queue();
  let lose = 0;
  const inner = pgConnector(pg.Client, db.config);
  const connector: Connector = {
    async connect(name): Promise<Connection> {
      const connection = await inner.connect(name);
      return {
        ...connection,
        query: async (text, values) => {
          const answer = await connection.query(text, values);
          if (text.includes("return_many") && lose-- > 0) throw new Error("the answer was lost");
          return answer;
        },
      };
    },
  };
  await using worker = new Worker(connector, {
    queues: q, logger: quiet, grace: 0, concurrency: 4, lease: 1_000,
    handlers: { ok: () => 1, bad: () => { throw new Error("again"); }, later: () => { throw new Snooze(3_600_000); }, never: () => { throw new Abort("no"); } },
  });
  await worker.start();
  for (const action of ["ok", "bad", "later", "never"]) {
    lose = 1;
    const before = worker.stats.completed + worker.stats.retried + worker.stats.yielded + worker.stats.aborted;
    await db.client.submit(q, {}, { action, retryInterval: "1 hour" });
    await until(`${action} is counted`, () => worker.stats.completed + worker.stats.retried + worker.stats.yielded + worker.stats.aborted > before);
  }
  const { completed, retried, yielded, aborted, lost, owned, reconnects } = worker.stats;
  assert.deepEqual({ completed, retried, yielded, aborted, lost, owned }, { completed: 1, retried: 1, yielded: 1, aborted: 1, lost: 0, owned: 4 });
  assert(reconnects >= 4);
});

for (const [driver, inner] of [["pg", () => pgConnector(pg.Client, db.config)], ["postgres.js", () => postgresConnector(postgres, { ...db.config })]] as const) {
  test(`prepared statements that a pooler lost, through ${driver}`, async () => {
    const q = queue();
    let prepared = 0;
    const connector: Connector = {
      async connect(name): Promise<Connection> {
        const connection = await inner().connect(name);
        return { ...connection, query: async (text, values, prepare) => {
          // behind the back of the driver, which goes on to believe in them
          if (prepare && ++prepared % 5 === 0) await connection.query("deallocate all");
          return await connection.query(text, values, prepare);
        } };
      },
    };
    const warnings: string[] = [];
    const logger = { info() {}, warn: (text: string) => void warnings.push(text), error: (text: string) => void warnings.push(text) };
    await using worker = new Worker(connector, { queues: q, concurrency: 1, logger, handlers: { "": () => {} } });
    await worker.start();
    for (let n = 1; n <= 15; n++) {
      await db.client.submit(q);
      await until("it is completed", () => worker.stats.completed === n);
    }
    const { owned, completed, lost, reconnects } = worker.stats;
    assert.deepEqual({ owned, completed, lost, reconnects }, { owned: 15, completed: 15, lost: 0, reconnects: 0 });
    assert.deepEqual(warnings, []);
    assert(prepared >= 5);
  });
}

test("each result is returned alone when a batch is refused and the answers are lost", async () => {
  const q = queue();
  let lose = 0;
  const inner = pgConnector(pg.Client, db.config);
  const connector: Connector = {
    async connect(name): Promise<Connection> {
      const connection = await inner.connect(name);
      return { ...connection, query: async (text, values) => {
        const answer = await connection.query(text, values);
        // only single returns get here: with the bad one, all together are refused
        if (text.includes("return_many") && ++lose === 2) throw new Error("the answer was lost");
        return answer;
      } };
    },
  };
  const go = deferred();
  await using worker = new Worker(connector, { queues: q, logger: quiet, grace: 0, concurrency: 6, handlers: { "": async (task) => {
    await go.promise;
    return task.spec === 5 ? "\0" : task.spec;
  } } });
  await db.client.submitMany(q, [0, 1, 2, 3, 4, 5], { maxTries: 1 });
  await worker.start();
  await until("all run", () => worker.running === 6);
  go.resolve();
  await until("all have settled", async () => (await settled(q)) === 5 && (await settled(q, "aborted")) === 1, 8_000);
  await until("all are counted", () => worker.stats.completed === 5 && worker.stats.retried === 1);
  assert.equal(worker.stats.reconnects, 1);
});

test("a worker that hears of work and never gets any does not hurry", async () => {
  const q = queue();
  const sent: string[] = [];
  const inner = recording(sent);
  const connector: Connector = {
    async connect(name): Promise<Connection> {
      const connection = await inner.connect(name);
      return { ...connection, query: async (text, values) => {
        if (!text.startsWith("call")) return await connection.query(text, values);
        sent.push("wait");
        return { rows: [{ event: "work", queue: q }] };
      } };
    },
  };
  await using worker = new Worker(connector, { queues: q, handlers: { "": () => {} }, logger: quiet, grace: 0 });
  await worker.start();
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  assert(sent.length < 60, `${sent.length} statements in a second`);
});

test("a worker starts before the server does", async () => {
  let refused = 0;
  const inner = pgConnector(pg.Client, db.config);
  const q = queue();
  const connector: Connector = { connect: async (name) => {
    if (++refused <= 3) throw Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
    return await inner.connect(name);
  } };
  await using worker = new Worker(connector, { queues: q, handlers: { "": () => "up" }, logger: quiet, grace: 0 });
  await worker.start();
  assert.equal(await db.client.result(await db.client.submit(q, {}, { postResult: true })), "up");
});

test("the delays of an outage that is over do not hold up the next reconnect", async (t) => {
  const q = queue();
  const inner = pgConnector(pg.Client, db.config);
  const open: Connection[] = [];
  let refused = 0;
  let down = false;
  const connector: Connector = { connect: async (name) => {
    if (down) {
      refused++;
      throw new Error("refused");
    }
    open.push(await inner.connect(name));
    return open.at(-1)!;
  } };
  const lose = () => { for (const connection of open.splice(0)) connection.destroy(); };
  await using worker = new Worker(connector, { queues: q, handlers: { "": () => {} }, logger: quiet, grace: 0 });
  await worker.start();
  t.mock.method(Math, "random", () => 0.9); // the longest delays
  down = true;
  lose();
  await until("it was refused six times", () => refused >= 6);
  down = false;
  await until("it is back", () => worker.stats.reconnects === 1);
  await new Promise((resolve) => setTimeout(resolve, 1_200));
  const lost = performance.now();
  lose();
  await until("it is back again", () => worker.stats.reconnects === 2);
  assert(performance.now() - lost < 1_000, `${performance.now() - lost} ms`);
});

test("a server that this client cannot work with is an error at once", async () => {
  const worker = new Worker(pgConnector(pg.Client, { ...db.config, database: "template1" }), { queues: "q", handlers: { "": () => {} }, logger: quiet });
  await assert.rejects(worker.start(), IncompatibleError);
  await worker.finished;
});

test("a server of another protocol, or without a feature, is an error that says so", async () => {
  const inner = pgConnector(pg.Client, db.config);
  for (const [about, says] of [[{ version: "9.0.0", protocol: 2, features: [] }, /9\.0\.0 speaks protocol 2/], [{ version: "0.1.9", protocol: 1, features: ["heartbeat"] }, /needs own_any, return_many/]] as const) {
    const connector: Connector = { connect: async (name) => {
      const connection = await inner.connect(name);
      return { ...connection, query: async (text, values) => (text.includes("about") ? { rows: [{ about: JSON.stringify(about) }] } : await connection.query(text, values)) };
    } };
    const worker = new Worker(connector, { queues: "q", handlers: { "": () => {} }, logger: quiet });
    await assert.rejects(worker.start(), (error) => error instanceof IncompatibleError && says.test(error.message));
    await worker.finished;
  }
});

test("stop before or during the start ends it", async () => {
  const never = new Worker({ connect: async () => { throw new Error("refused"); } }, { queues: "q", handlers: { "": () => {} }, logger: quiet });
  const starting = never.start();
  await never.stop();
  await starting;
  const unstarted = db.worker({ handlers: { "": () => {} } });
  await unstarted.stop();
  await unstarted.finished;
});

test("a role that may only work has a worker, and configuration may be asked for each connect", async () => {
  const q = queue();
  const role = `ts_worker_${process.pid}`;
  await db.pool.query(`create role ${role} login; select scylla.grant('${q}', '${role}', '{work}')`);
  let asked = 0;
  const connector = pgConnector(pg.Client, async () => ({ ...db.config, user: asked++ === 1 ? "no_such_role" : role }));
  const worker = new Worker(connector, { queues: q, concurrency: 1, lease: 1_000, handlers: { "": () => "done" }, logger: quiet, grace: 0 });
  try {
    await worker.start();
    assert.equal(await db.client.result(await db.client.submit(q, {}, { postResult: true })), "done");
    await db.value("select count(pg_terminate_backend(pid)) from pg_stat_activity where usename = $1", [role]);
    assert.equal(await db.client.result(await db.client.submit(q, {}, { postResult: true })), "done");
    assert(asked >= 3);
  } finally {
    await worker.stop();
    await db.pool.query(`select scylla.revoke('${q}', '${role}', '{work}'); drop role ${role}`);
  }
});

test("two workers in one process do not know of each other", async () => {
  const [a, b] = [queue(), queue()];
  await using first = db.worker({ queues: a, handlers: { "": () => "a" } });
  await using second = db.worker({ queues: b, handlers: { "": () => "b" } });
  await Promise.all([first.start(), second.start()]);
  await first.stop();
  assert.equal(await db.client.result(await db.client.submit(b, {}, { postResult: true })), "b");
  assert.notEqual(first.name, second.name);
});

test("workers of several databases run as one", async () => {
  await using other = await database();
  const q = queue();
  const ran: unknown[] = [];
  const workers = [db, other].map((of) => of.worker({ queues: q, handlers: { "": (task) => void ran.push(task.spec) } }));
  const end = Worker.runAll(workers);
  await db.client.submit(q, "first");
  await other.client.submit(q, "second");
  await until("both ran", () => ran.length === 2);
  assert(await other.client.drainWorker(workers[1]!.name));
  await end;
  assert.equal(workers[0]!.running, 0);
  // where it can do nothing, the others stop
  await other.pool.query("drop extension scylla");
  const again = [db, other].map((of) => of.worker({ queues: q, handlers: { "": () => {} } }));
  await assert.rejects(Worker.runAll(again), IncompatibleError);
  await again[0]!.finished;
});
