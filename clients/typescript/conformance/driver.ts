// The driver of clients/conformance: driver.js URL. Commands and events are lines of JSON.
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import pg from "pg";
import { Abort, Client, parseJson, Snooze, sqlState, toJson, Worker, type Task } from "scylla-pg";
import { pgConnector } from "scylla-pg/pg";

interface Spec {
  ms?: number;
  then?: string;
  deaf?: boolean;
  value?: unknown;
}

const config = { connectionString: process.argv[2] };
const pool = new pg.Pool(config);
pool.on("error", () => {}); // it connects again
const client = new Client(pool);
const snoozed = new Set<string>();

function say(members: object): void {
  let rest = Buffer.from(`${toJson(members)}\n`);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(1, rest));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
    }
  }
}

async function work(task: Task): Promise<unknown> {
  const { ms = 0, then, deaf = false, value = null } = task.spec as Spec;
  say({ event: "begin", task: task.id, tries: task.tries });
  if (ms > 0) {
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(resolve, ms);
      task.signal.addEventListener("abort", () => {
        say({ event: "stopped", task: task.id, cause: task.signal.reason.name });
        if (deaf) return;
        clearTimeout(timer);
        reject(task.signal.reason);
      });
    });
  }
  if (then === "snooze" && !snoozed.has(task.id)) {
    snoozed.add(task.id);
    say({ event: "stopped", task: task.id, cause: "Snooze" });
    throw new Snooze(300);
  }
  say({ event: "end", task: task.id });
  if (then === "error") throw new Error("told to fail");
  if (then === "abort") throw new Abort("told", "told to abort");
  return then === "meta" ? task.meta : value;
}

async function submit(command: any): Promise<(string | null)[]> {
  const { key, on_conflict, priority, group_key, max_tries, post_result, meta } = command.options;
  const options = Object.fromEntries(
    Object.entries({
      action: command.action, key, onConflict: on_conflict, priority, groupKey: group_key, maxTries: max_tries,
      postResult: post_result, meta,
    }).filter(([, value]) => value !== undefined),
  );
  const send = async (through: Client): Promise<(string | null)[]> =>
    command.count > 1
      ? await through.submitMany(command.queue, Array(command.count).fill(command.spec), options)
      : [await through.submit(command.queue, command.spec, options)];
  if (command.in === undefined) return await send(client);
  const connection = await pool.connect();
  try {
    await connection.query("begin");
    if (command.in === "savepoint") await connection.query("savepoint s");
    const ids = await send(client.with(connection));
    if (command.in === "savepoint") await connection.query("rollback to savepoint s");
    await connection.query(command.in === "rollback" ? "rollback" : "commit");
    return ids;
  } finally {
    connection.release();
  }
}

async function run(command: any): Promise<object> {
  switch (command.do) {
    case "submit":
      return { tasks: await submit(command) };
    case "result":
      return { value: await client.result(command.task) };
    case "work": {
      const { name, queues, concurrency, lease, grace } = command;
      const worker = new Worker(pgConnector(pg.Client, config), {
        name,
        queues,
        handlers: { work },
        ...(concurrency === undefined ? {} : { concurrency }),
        ...(lease === undefined ? {} : { lease: lease * 1000 }),
        ...(grace === undefined ? {} : { grace: grace * 1000 }),
        logger: { info: console.error, warn: console.error, error: console.error },
      });
      void worker.run().then(() => process.exit(0));
      return {};
    }
  }
  throw new Error(`unknown command ${command.do}`);
}

for await (const line of createInterface({ input: process.stdin })) {
  const command = parseJson(line) as any;
  const id = command.id;
  try {
    say({ id, ...(await run(command)) });
  } catch (error) {
    say({ id, error: String(error), sqlstate: sqlState(error) });
  }
}
