// Measures a worker whose handler does nothing against bare pg that makes the same calls, in turns.
// Usage: node build/bench/overhead.js [TASKS] [ROUNDS]; the connection comes from PGHOST, PGPORT ….
import pg from "pg";
import { Client, Worker } from "scylla-pg";
import { pgConnector } from "scylla-pg/pg";

const [tasks = 20_000, rounds = 3] = process.argv.slice(2).map(Number);
const silent = { info() {}, warn() {}, error() {} };
const pool = new pg.Pool({ max: 1 });
await pool.query("create extension if not exists scylla");
const client = new Client(pool);
let queues = 0;

async function submitted(count: number): Promise<string> {
  const queue = `bench-${process.pid}-${++queues}`;
  await client.submitMany(queue, Array.from({ length: count }, (_, n) => ({ n })), { batch: 10_000 });
  return queue;
}

/** Tasks per second of a worker. */
async function worker(concurrency: number, count: number): Promise<number> {
  const queue = await submitted(count);
  let left = count;
  let done!: () => void;
  const finished = new Promise<void>((resolve) => (done = resolve));
  const worker = new Worker(pgConnector(pg.Client), {
    queues: queue, concurrency, logger: silent,
    handlers: { "": () => void (--left === 0 && done()) },
  });
  const since = performance.now();
  await worker.start();
  await finished;
  await worker.stop();
  return (count / (performance.now() - since)) * 1_000;
}

/** The same with bare pg: `each` tasks a statement, over some connections. */
async function bare(each: number, connections: number, count: number): Promise<number> {
  const queue = await submitted(count);
  const since = performance.now();
  await Promise.all(Array.from({ length: connections }, async (_, at) => {
    const db = new pg.Client();
    await db.connect();
    let held: { id: string; token: string }[] = [];
    do {
      const ids = held.map(({ id }) => id);
      const tokens = held.map(({ token }) => token);
      const { rows } = await db.query(
        "select o.* from scylla.return_many($1::uuid[], $2::uuid[], $3::text[]) r left join lateral scylla.own_tasks($4, $5, $6, '{\"\"}') o on true",
        [ids, tokens, ids.map(() => "completed"), `bare-${at}`, queue, each],
      );
      held = rows.filter(({ id }) => id !== null);
    } while (held.length > 0);
    await db.end();
  }));
  return (count / (performance.now() - since)) * 1_000;
}

const median = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1]!;
console.log("concurrency   worker tasks/s   bare pg tasks/s   bare / worker");
for (const [concurrency, each, connections, count] of [[1, 1, 1, tasks / 2], [32, 32, 1, tasks], [256, 100, 3, tasks]] as const) {
  const [ours, theirs]: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    ours.push(await worker(concurrency, count));
    theirs.push(await bare(each, connections, count));
  }
  const [a, b] = [median(ours), median(theirs)];
  console.log(`${String(concurrency).padStart(11)}   ${a.toFixed(0).padStart(14)}   ${b.toFixed(0).padStart(15)}   ${(b / a).toFixed(2).padStart(13)}`);
}
await pool.end();
