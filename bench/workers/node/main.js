// Tasks through a worker of Node.js: ours, or a peer's. Usage:
//   main.js SYSTEM install                        makes its schema, in place of the one that is there
//   main.js SYSTEM fill TASKS                     adds tasks until there are so many
//   main.js SYSTEM work CONCURRENCY SECONDS       a handler that does nothing
//   main.js SYSTEM latency CONCURRENCY RATE SECONDS   submits singly at a rate: from the call to the handler,
//                                                 without the first WARM seconds
//   main.js SYSTEM remove                         drops its schema
// The connection comes from PGHOST and so on. Prints JSON.
import pg from "pg";
import { systems } from "./systems.js";

const [name, command, ...words] = process.argv.slice(2);
const numbers = words.map(Number);
const WARM = 2; // seconds, in which pools connect and functions are compiled
const pool = new pg.Pool({ max: 20 });
for (const event of ["error", "connect"]) {
  pool.on(event, (what) => event === "connect" && what.on("error", () => {})); // Graphile Worker asks for both
}
const system = systems[name](pool);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const left = async () => Number((await pool.query(system.left)).rows[0].left);

const commands = {
  async install() {
    await system.remove();
    await system.install();
    return {};
  },

  async remove() {
    await system.remove();
    return {};
  },

  async fill(tasks) {
    for (let missing = tasks - (await left()); missing > 0; missing -= 1_000) await system.fill(1_000);
    return { left: await left() };
  },

  async work(concurrency, seconds) {
    let handled = 0;
    const stop = await system.work(concurrency, () => void handled++);
    for (let n = 0; handled === 0; n++) {
      if (n === 20_000) throw new Error("no task was handled");
      await pause(1);
    }
    const before = handled;
    const begun = performance.now();
    await pause(seconds * 1_000);
    const rate = ((handled - before) / (performance.now() - begun)) * 1_000;
    await stop();
    return { rate, handled, left: await left() };
  },

  async latency(concurrency, rate, seconds) {
    const latencies = [];
    let handled = 0;
    let counted = Infinity;
    const stop = await system.work(concurrency, ({ at }) => {
      handled++;
      if (at >= counted) latencies.push(performance.now() - at);
    });
    await pause(1_000);
    const submissions = [];
    const begun = performance.now();
    counted = begun + WARM * 1_000;
    for (let n = 0; n < rate * (WARM + seconds); n++) {
      const wait = begun + (n * 1_000) / rate - performance.now();
      if (wait > 0) await pause(wait);
      submissions.push(system.submit({ at: performance.now() }));
    }
    await Promise.all(submissions);
    for (let n = 0; n < 3_000 && handled < submissions.length; n++) await pause(10);
    await stop();
    latencies.sort((a, b) => a - b);
    const at = (share) => latencies[Math.floor(latencies.length * share)];
    return { submitted: submissions.length, handled, p50: at(0.5), p99: at(0.99) };
  },
};

const result = await commands[command](...numbers);
console.log(JSON.stringify(result));
await system.close?.();
await pool.end();
