// A worker in a process of its own. Says what it does in lines of JSON.
// Arguments: the connection's configuration and the worker's options, as JSON.
import pg from "pg";
import { Worker, type Task } from "scylla-pg";
import { pgConnector } from "scylla-pg/pg";

const [config, options] = process.argv.slice(2).map((text) => JSON.parse(text) as object);
const say = (event: string, more: object = {}) => process.stdout.write(`${JSON.stringify({ event, ...more })}\n`);

interface Spec {
  /** How long the work takes. */
  ms?: number;
  /** Does not listen to its signal. */
  deaf?: boolean;
}

async function work(task: Task): Promise<string> {
  const { ms = 0, deaf = false } = task.spec as Spec;
  say("begin", { id: task.id, tries: task.tries });
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    task.signal.addEventListener("abort", () => {
      say("stop", { id: task.id, cause: task.signal.reason.name });
      if (deaf) return;
      clearTimeout(timer);
      reject(task.signal.reason);
    });
  });
  say("end", { id: task.id });
  return `${process.pid}`;
}

const log = (level: string) => (message: string) => say("log", { level, message });
const worker = new Worker(pgConnector(pg.Client, config), {
  queues: "q",
  handlers: { "*": work },
  logger: { info: log("info"), warn: log("warn"), error: log("error") },
  ...options,
});
void worker.start().then(() => say("ready", { name: worker.name }));
await worker.run();
say("stopped", { stats: worker.stats });
