import { isConnectionError, sqlState } from "./errors.js";
import type { Queryable, Row } from "./sql.js";

/** A connection of its own to the server, which no transaction and no pool comes between. */
export interface Connection extends Queryable {
  /** As `Queryable`. With `prepare` the server may keep the plan, below a name that no other statement has. */
  query(text: string, values?: (string | null)[], prepare?: boolean): Promise<{ rows: Row[] }>;
  /** Ends it in good order. */
  close(): Promise<void>;
  /** Ends it at once, with the statement that it runs. */
  destroy(): void;
  /** Calls back once when the connection has ended, for whatever reason. */
  onEnd(callback: () => void): void;
}

/** Opens connections. Adapters make one for `pg` and for `postgres`. */
export interface Connector {
  connect(applicationName: string): Promise<Connection>;
}

/** No answer: the statement may have been done, or not. */
export class NoAnswer extends Error {
  override readonly name = "NoAnswer";
}

const CONNECT_TIMEOUT = 10_000;
const FIRST_DELAY = 100;
const LAST_DELAY = 10_000;
// Behind a pooler that does not know prepared statements: one is absent, or there already.
const UNPREPARED = ["26000", "42P05"];
const STABLE = 1_000; // after so long the next loss is a new one, and no part of the last

export interface LinkOptions {
  applicationName: string;
  /** How many connections for short calls. */
  size: number;
  /** Called on a new connection before others use it; what it throws counts as a failed connect. */
  greet(connection: Connection): Promise<void>;
  /** True for an error of `greet` that no other connect would cure. */
  isFatal(error: unknown): boolean;
  onUp(again: boolean): void;
  onDown(error: unknown): void;
}

/** A worker's connections: one that waits, and a few for short calls. Reconnects when one is lost. */
export class Link {
  #up = false;
  #closed = false;
  #idle: Connection[] = [];
  #open = new Set<Connection>();
  #shortOpen = 0;
  #queue: ((connection: Connection | undefined) => void)[] = [];
  #waiter: Connection | undefined;
  #failures = 0;
  #upSince = 0;
  #prepares = true;
  #wakeUp = new AbortController();

  constructor(
    private readonly connector: Connector,
    private readonly options: LinkOptions,
  ) {}

  get up(): boolean {
    return this.#up;
  }

  /** Resolves when the server has been reached; rejects when it never can be. */
  async connect(): Promise<void> {
    await this.#reconnect();
  }

  /** Runs a short call on one of the pool's connections. Throws NoAnswer when the connection is lost on the way. */
  async call(text: string, values: (string | null)[], timeout: number): Promise<Row[]> {
    const connection = await this.#acquire();
    try {
      const rows = await this.query(connection, text, values, timeout, this.#prepares);
      this.#release(connection);
      return rows;
    } catch (error) {
      if (error instanceof NoAnswer) this.#fail(error);
      else this.#release(connection);
      throw error;
    }
  }

  /** Runs a call that waits, on its own connection. */
  async wait(text: string, values: (string | null)[], timeout: number): Promise<Row[]> {
    if (!this.#up) throw new NoAnswer("the server is down");
    try {
      this.#waiter ??= await this.#connect();
      return await this.query(this.#waiter, text, values, timeout);
    } catch (error) {
      if (error instanceof NoAnswer) {
        this.#waiter = undefined;
        if (!this.#closed) this.#fail(error);
      }
      throw error;
    }
  }

  /** Runs a statement with a time-out. A connection that fails or is late is destroyed. */
  async query(connection: Connection, text: string, values: (string | null)[], timeout: number, prepare = false): Promise<Row[]> {
    try {
      return (await within(timeout, connection.query(text, values, prepare))).rows;
    } catch (error) {
      if (prepare && UNPREPARED.includes(sqlState(error) ?? "")) {
        this.#prepares = false;
        return await this.query(connection, text, values, timeout);
      }
      if (!isConnectionError(error)) throw error;
      connection.destroy();
      throw new NoAnswer(error instanceof Error ? error.message : String(error), { cause: error });
    }
  }

  /** Ends the connection that waits, with its wait. */
  stopWaiting(): void {
    this.#waiter?.destroy();
    this.#waiter = undefined;
  }

  /** Ends every connection. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#up = false;
    this.#wakeUp.abort();
    this.stopWaiting();
    for (const waiting of this.#queue.splice(0)) waiting(undefined);
    const closing = this.#idle.splice(0).map((connection) =>
      within(1_000, connection.close()).catch(() => connection.destroy()),
    );
    await Promise.all(closing);
    for (const connection of this.#open) connection.destroy();
  }

  async #acquire(): Promise<Connection> {
    if (!this.#up) throw new NoAnswer("the server is down");
    const idle = this.#idle.pop();
    if (idle) return idle;
    if (this.#shortOpen >= this.options.size) {
      const next = await new Promise<Connection | undefined>((resolve) => this.#queue.push(resolve));
      if (!next) throw new NoAnswer("the server is down");
      return next;
    }
    try {
      return await this.#connectShort();
    } catch (error) {
      this.#fail(error);
      throw new NoAnswer("could not connect", { cause: error });
    }
  }

  #release(connection: Connection): void {
    if (!this.#open.has(connection)) return;
    if (this.#closed) return connection.destroy();
    const next = this.#queue.shift();
    if (next) next(connection);
    else this.#idle.push(connection);
  }

  async #connectShort(): Promise<Connection> {
    this.#shortOpen++;
    try {
      const connection = await this.#connect();
      connection.onEnd(() => this.#shortOpen--);
      return connection;
    } catch (error) {
      this.#shortOpen--;
      throw error;
    }
  }

  async #connect(): Promise<Connection> {
    const opening = this.connector.connect(this.options.applicationName);
    let connection;
    try {
      connection = await within(CONNECT_TIMEOUT, opening);
    } catch (error) {
      opening.then((late) => late.destroy(), () => {});
      throw new NoAnswer(error instanceof Error ? error.message : String(error), { cause: error });
    }
    if (this.#closed) {
      connection.destroy();
      throw new NoAnswer("the worker has stopped");
    }
    this.#open.add(connection);
    connection.onEnd(() => {
      this.#open.delete(connection);
      this.#idle = this.#idle.filter((idle) => idle !== connection);
      if (this.#waiter === connection) this.#waiter = undefined;
    });
    return connection;
  }

  // A connection is lost. The others may live, and the server, too: the next connect tells.
  #fail(error: unknown): void {
    if (!this.#up) return;
    this.#up = false;
    for (const waiting of this.#queue.splice(0)) waiting(undefined);
    for (const idle of this.#idle.splice(0)) idle.destroy();
    if (performance.now() - this.#upSince > STABLE) this.#failures = 0;
    this.options.onDown(error);
    this.#reconnect().catch((fatal: unknown) => this.options.onDown(fatal));
  }

  async #reconnect(): Promise<void> {
    for (; !this.#closed; this.#failures++) {
      if (this.#failures > 0 || this.#upSince > 0) {
        await sleep(Math.random() * Math.min(LAST_DELAY, FIRST_DELAY * 2 ** this.#failures), this.#wakeUp.signal);
        if (this.#closed) return;
      }
      try {
        const connection = await this.#connectShort();
        try {
          await this.options.greet(connection);
        } catch (error) {
          connection.destroy();
          throw error;
        }
        const again = this.#upSince > 0;
        this.#up = true;
        this.#upSince = performance.now();
        this.#release(connection);
        this.options.onUp(again);
        return;
      } catch (error) {
        if (this.options.isFatal(error) && this.#upSince === 0) throw error;
        this.options.onDown(error);
      }
    }
  }
}

export async function within<Value>(timeout: number, promise: Promise<Value>): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new NoAnswer(`no answer within ${Math.round(timeout)} ms`)), timeout);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Sleeps; an abort of the signal ends it early. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
  });
}
