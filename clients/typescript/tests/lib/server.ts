// Databases and servers for tests. The script `test` has started a server and set PGHOST and PGPORT.
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { Client, Worker, type Connector, type Logger, type WorkerOptions } from "scylla-pg";
import { pgConnector } from "scylla-pg/pg";

const run = promisify(execFile);

export interface Database extends AsyncDisposable {
  config: pg.PoolConfig & { database: string };
  pool: pg.Pool;
  client: Client;
  connector: Connector;
  /** A worker that is stopped with the database. */
  worker(options: Partial<WorkerOptions> & Pick<WorkerOptions, "handlers">): Worker;
  /** One value of one row. */
  value<Value = any>(text: string, values?: unknown[]): Promise<Value>;
}

export const quiet: Logger = { info() {}, warn() {}, error() {} };

/** A database of its own, on the tests' server or on another one. */
export async function database(server: pg.PoolConfig = {}): Promise<Database> {
  const name = `ts_${randomBytes(6).toString("hex")}`;
  await once({ ...server, database: "postgres" }, `create database ${name}`);
  const config = { ...server, database: name };
  const pool = new pg.Pool({ ...config, max: 8 });
  pool.on("error", () => {});
  await pool.query("create extension scylla");
  const workers: Worker[] = [];
  const connector = pgConnector(pg.Client, config);
  return {
    config,
    pool,
    client: new Client(pool),
    connector,
    worker(options) {
      const worker = new Worker(connector, { queues: "q", logger: quiet, grace: 0, ...options });
      workers.push(worker);
      return worker;
    },
    async value(text, values) {
      const { rows } = await pool.query({ text, values: values ?? [], rowMode: "array" });
      return rows[0]?.[0];
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(workers.map((worker) => worker.stop({ grace: 0 })));
      await pool.end();
      await once({ ...server, database: "postgres" }, `drop database ${name} with (force)`);
    },
  };
}

async function once(config: pg.ClientConfig, text: string): Promise<void> {
  const client = new pg.Client(config);
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}

export interface Server extends AsyncDisposable {
  config: pg.PoolConfig;
  /** `scripts/pg COMMAND` for this server. */
  pg(command: string, ...args: string[]): Promise<void>;
  /** The postmaster's process. */
  dir: string;
}

/** A server of its own, for tests that restart it. */
export async function server(...lines: string[]): Promise<Server> {
  const { SCYLLA_REPO: repo, SCYLLA_FOLDER: folder } = process.env;
  if (!repo || !folder) throw new Error("run the tests by clients/typescript/test");
  const script = join(repo, "scripts/pg");
  const dir = join(folder, `server-${randomBytes(4).toString("hex")}`);
  const { stdout } = await run(script, ["start", dir, "scylla.board_size = 8192", ...lines]);
  const port = Number(/PGPORT=(\d+)/.exec(stdout)?.[1]);
  return {
    config: { host: "127.0.0.1", port, user: "postgres" },
    dir,
    pg: async (command, ...args) => {
      await run(script, [command, dir, ...args]);
    },
    async [Symbol.asyncDispose]() {
      await run(script, ["remove", dir]);
    },
  };
}

/** Waits until something holds, and gives what it gave. Throws after the time, 20 seconds unless given. */
export async function until<Value>(what: string, holds: () => Value | Promise<Value>, timeout = 20_000): Promise<NonNullable<Value>> {
  const end = performance.now() + timeout;
  for (;;) {
    const value = await holds();
    if (value) return value as NonNullable<Value>;
    if (performance.now() > end) throw new Error(`not within ${timeout} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** A promise and its ends. */
export function deferred<Value = void>() {
  let resolve!: (value: Value) => void;
  const promise = new Promise<Value>((done) => (resolve = done));
  return { promise, resolve };
}

/** Resolves when the signal is aborted, with its reason. */
export function stopped(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(signal.reason);
    signal.addEventListener("abort", () => resolve(signal.reason));
  });
}
