// Measures the time from submit to the begin of the handler, at a steady rate, and memory over many tasks.
// Usage: node --expose-gc build/bench/latency.js [RATE] [SECONDS] [MEMORY_TASKS]
import pg from "pg";
import { Client, Worker } from "scylla-pg";
import { pgConnector } from "scylla-pg/pg";

const [rate = 500, seconds = 10, many = 100_000] = process.argv.slice(2).map(Number);
const silent = { info() {}, warn() {}, error() {} };
const pool = new pg.Pool({ max: 8 });
await pool.query("create extension if not exists scylla");
const client = new Client(pool);
const queue = `latency-${process.pid}`;
const latencies: number[] = [];
let handled = 0;
const worker = new Worker(pgConnector(pg.Client), {
  queues: queue, concurrency: 32, logger: silent,
  handlers: { "": (task) => {
    handled++;
    if (typeof task.spec === "number") latencies.push(performance.now() - task.spec);
  } },
});
await worker.start();
const until = async (holds: () => boolean) => {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5));
};

const since = performance.now();
const submissions: Promise<unknown>[] = [];
for (let n = 0; n < rate * seconds; n++) {
  const due = since + (n * 1_000) / rate;
  if (due > performance.now()) await new Promise((resolve) => setTimeout(resolve, due - performance.now()));
  submissions.push(client.submit(queue, performance.now()));
}
await Promise.all(submissions);
await until(() => latencies.length === rate * seconds);
latencies.sort((a, b) => a - b);
const at = (part: number) => latencies[Math.floor(latencies.length * part)]!.toFixed(1);
console.log(`${rate} a second: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms from the call of submit to the handler`);

async function heap(count: number): Promise<number> {
  handled = 0;
  await client.submitMany(queue, Array.from({ length: count }, () => ({})), { batch: 10_000 });
  await until(() => handled === count && worker.running === 0);
  await new Promise((resolve) => setTimeout(resolve, 200));
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}
await heap(many / 10);
const before = await heap(many / 10);
const afterwards = await heap(many);
console.log(`heap after ${many} more tasks: ${((afterwards / before - 1) * 100).toFixed(1)} %`);
await worker.stop();
await pool.end();
