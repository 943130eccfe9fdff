import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { IncompatibleError, sqlState } from "./errors.js";
import {
  Cancelled, describe, LeaseLost, runHandler, Shutdown, TimeLimitExceeded,
  type Handler, type HandleMiddleware, type HandlerFunction, type Handlers, type Outcome, type StopCause,
} from "./handler.js";
import { parseJson, toJson } from "./json.js";
import { Link, NoAnswer, sleep, type Connection, type Connector } from "./link.js";
import { OwnedTask, taskColumns, type Lease } from "./owned-task.js";
import { array, interval, sparse, Statement, timestamp, words, type Interval, type Row } from "./sql.js";
import { VERSION } from "./version.js";

export interface WorkerOptions {
  /** The queues to serve, 1 to 16, in order of preference. */
  queues: string | readonly string[];
  /** Handlers by action. An action without one is not owned. */
  handlers: Handlers;
  /** The name; `host:pid:4 hex digits` unless given. */
  name?: string;
  /** How many handlers run at once, 10 unless given. */
  concurrency?: number;
  /** How many tasks more to own than can begin, 0 unless given. */
  prefetch?: number;
  /** The length of the leases; the task's or the queue's unless given. */
  lease?: Interval;
  /** Milliseconds that handlers have when the worker stops, 25,000 unless given. */
  grace?: number;
  /** Milliseconds after which a handler is stopped; no limit unless given. */
  timeLimit?: number;
  /** Milliseconds for which results are gathered, 5 unless given. */
  coalesce?: number;
  /** Goes around each handler. */
  middleware?: readonly HandleMiddleware[];
  /** Hears what an administrator should know. The console unless given. */
  logger?: Logger;
}

export interface Logger {
  info(message: string): void;
  warn(message: string, error?: unknown): void;
  error(message: string, error?: unknown): void;
}

/** What a worker has done since it began. */
export interface WorkerStats {
  owned: number;
  completed: number;
  retried: number;
  aborted: number;
  yielded: number;
  /** Stopped because they were cancelled or deleted. */
  cancelled: number;
  /** Results dropped, because the lease was lost. */
  lost: number;
  /** Statements sent, waits among them. */
  statements: number;
  reconnects: number;
}

/** A task of this worker, from the row that it came in until its end is settled. */
interface Held extends Lease {
  task: OwnedTask;
  /** The handler has ended, or its result is of no interest. */
  over: boolean;
}

/** How a task ends, as the server is told. */
interface Settlement {
  held: Held;
  outcome: Outcome["outcome"];
  result: string | null;
  error: string | null;
  runAt: string | null;
  /** Was sent and had no answer: it may have been done. */
  sent: boolean;
  /** The server did not take it as it was. */
  refused: boolean;
}

const BATCH = 500; // tasks that one statement returns or owns
const ENOUGH = 100; // results that wait for no more
const PROTOCOL = 1;
const FEATURES = ["heartbeat", "own_any", "return_many", "wait_for_event", "yield_run_at"];
const WAIT = 30_000;
const CALL_TIMEOUT = 10_000;
const POOL = 4;
const FENCE = 0.9;
const STOP_PATIENCE = 3_000;
const ENDLESS_BEAT = 30_000; // for a lease that never expires
const LONGEST_TIMER = 86_400_000; // a timer holds less than 2^31 ms
// A wait for signals only cannot be ended when a place comes free: it lasts a quarter of the time for
// which none did.
const SHORT_WAIT = 50;
const LONG_WAIT = 2_000;

/**
 * Owns tasks, runs their handlers, and tells the server how they ended. Survives restarts of the server.
 *
 * States: CONNECT, FETCH, WAIT, BEAT, FENCE, SETTLE, DOWN and DRAIN, as the README describes them.
 */
export class Worker implements AsyncDisposable {
  readonly name: string;
  readonly stats: WorkerStats = {
    owned: 0, completed: 0, retried: 0, aborted: 0, yielded: 0, cancelled: 0, lost: 0, statements: 0, reconnects: 0,
  };

  readonly #queues: readonly string[];
  readonly #handlers: Map<string, HandlerFunction | Handler>;
  readonly #any: HandlerFunction | Handler | undefined;
  readonly #actions: string | null;
  readonly #columns: { task: string; none: string };
  readonly #concurrency: number;
  readonly #prefetch: number;
  readonly #lease: string | null;
  readonly #grace: number;
  readonly #timeLimit: number | undefined;
  readonly #coalesce: number;
  readonly #middleware: readonly HandleMiddleware[];
  readonly #log: Logger;
  readonly #link: Link;
  readonly #exchangesAtOnce: number;

  readonly #held = new Map<string, Held>();
  readonly #pending: Held[] = []; // owned and not begun
  #outbox: Settlement[] = [];
  #running = 0;
  #reserved = 0; // places for what is being fetched
  #exchanges = 0;
  #more = true; // there may be tasks to own
  #full = 0; // fetches in a row that were full: then several may be under way
  #wakes = 0; // times in a row that the server spoke of work and gave none
  #lastExchange = 0;
  #gatherTimer: NodeJS.Timeout | undefined;
  #gathered = false;
  #pumpAsked = false;
  #ownAgain: NodeJS.Timeout | undefined;
  #clock: NodeJS.Timeout | undefined;
  #nextBeat = Infinity;
  #beating: Promise<void> | undefined;
  #beatAgain = false;

  #started: Promise<void> | undefined;
  #draining: Promise<void> | undefined;
  #impatient = false;
  #closed = false;
  #changed: (() => void)[] = []; // who waits for a handler to end or a settlement to have its answer
  #finish!: () => void;
  /** Resolves when the worker has stopped. */
  readonly finished = new Promise<void>((resolve) => (this.#finish = resolve));
  readonly #stopWait = new AbortController();

  constructor(connector: Connector, options: WorkerOptions) {
    const queues = typeof options.queues === "string" ? [options.queues] : [...options.queues];
    if (queues.length < 1 || queues.length > 16) throw new RangeError("a worker serves 1 to 16 queues");
    this.#queues = queues;
    this.#columns = taskColumns(queues.length > 1);
    const { "*": any, ...named } = options.handlers;
    if (!any && Object.keys(named).length === 0) throw new TypeError("a worker needs a handler");
    this.#any = any;
    this.#handlers = new Map(Object.entries(named));
    this.#actions = any ? null : array([...this.#handlers.keys()]);
    this.#concurrency = positive("concurrency", options.concurrency ?? 10);
    this.#prefetch = options.prefetch ?? 0;
    this.#lease = options.lease === undefined ? null : interval(options.lease);
    this.#grace = options.grace ?? 25_000;
    this.#timeLimit = options.timeLimit;
    this.#coalesce = options.coalesce ?? 5;
    this.#middleware = options.middleware ?? [];
    this.#log = options.logger ?? console;
    this.name = options.name ?? `${hostname().slice(0, 100)}:${process.pid}:${randomBytes(2).toString("hex")}`;
    const size = Math.min(POOL, this.#concurrency);
    this.#exchangesAtOnce = Math.max(1, size - 1); // heartbeats have a connection left
    this.#link = new Link(connector, {
      applicationName: `scylla-pg typescript/${VERSION} ${this.name}`,
      size,
      greet: (connection) => this.#greet(connection),
      isFatal: (error) => error instanceof IncompatibleError,
      onUp: (again) => this.#onUp(again),
      onDown: (error) => this.#onDown(error),
    });
  }

  // ---- for the caller ----

  /**
   * Starts. Resolves when the server is reached, however long that takes, or the worker is stopped;
   * rejects when the server is of a version that this client cannot work with.
   */
  start(): Promise<void> {
    return (this.#started ??= this.#start());
  }

  async #start(): Promise<void> {
    try {
      await this.#link.connect();
    } catch (error) {
      await this.#close();
      throw error;
    }
    void this.#waitLoop();
  }

  /**
   * Starts, and works until SIGTERM, SIGINT or `drain_worker`: then it drains. A second signal hands back
   * every task at once. After a signal the process exits with status 0, though a handler may still run.
   */
  async run(options: { signals?: boolean } = {}): Promise<void> {
    await Worker.runAll([this], options);
  }

  /**
   * Runs workers as one, such as one for each database of a sharded application: as `run` does, or until one
   * of them ends, which stops the others. Rejects as the first one does.
   */
  static async runAll(workers: readonly Worker[], { signals = true }: { signals?: boolean } = {}): Promise<void> {
    let signalled = false;
    const stop = (ended?: Worker): void => {
      for (const worker of workers) {
        if (worker !== ended) worker.stop().catch((error: unknown) => worker.#log.error("scylla: could not stop", error));
      }
    };
    const onSignal = () => {
      if (signalled) for (const worker of workers) worker.#hurry();
      signalled = true;
      stop();
    };
    const names = signals ? (["SIGTERM", "SIGINT"] as const) : [];
    for (const name of names) process.on(name, onSignal);
    try {
      const ends = await Promise.allSettled(
        workers.map(async (worker) => {
          try {
            await worker.start();
            await worker.finished;
          } finally {
            stop(worker);
          }
        }),
      );
      const failed = ends.find((end) => end.status === "rejected");
      if (failed) throw failed.reason;
      // A handler that does not listen to its signal would keep the process alive.
      if (signalled && workers.some((worker) => worker.#running > 0)) process.exit(0);
    } finally {
      for (const name of names) process.off(name, onSignal);
    }
  }

  /** Drains: fetches no more, gives handlers their grace, hands back the rest. No try is counted. */
  stop(options: { grace?: number } = {}): Promise<void> {
    return (this.#draining ??= this.#drain(options.grace ?? this.#grace));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /** How many handlers run. */
  get running(): number {
    return this.#running;
  }

  // ---- CONNECT and DOWN ----

  async #greet(connection: Connection): Promise<void> {
    this.stats.statements++;
    let about;
    try {
      const [row] = await this.#link.query(connection, "select scylla.about()::text as about", [], CALL_TIMEOUT);
      about = JSON.parse(row?.about as string) as { version?: string; protocol?: number; features?: string[] };
    } catch (error) {
      if (sqlState(error) !== "42883" && sqlState(error) !== "3F000") throw error;
      throw new IncompatibleError("the extension scylla is missing in this database, or older than 0.2", { cause: error });
    }
    const missing = FEATURES.filter((feature) => !about.features?.includes(feature));
    if (about.protocol !== PROTOCOL || missing.length) {
      throw new IncompatibleError(
        `scylla ${about.version} speaks protocol ${about.protocol}; this client speaks ${PROTOCOL}` +
          (missing.length ? ` and needs ${missing.join(", ")}` : ""),
      );
    }
    // Without leases, too: the server notes signals for the workers that it knows.
    await this.#beat(connection);
  }

  #onUp(again: boolean): void {
    this.#log.info(`scylla: worker ${this.name} is connected`);
    if (again) this.stats.reconnects++;
    this.#more = true;
    this.#lastExchange = performance.now();
    this.#notify();
    this.#pump();
  }

  #onDown(error: unknown): void {
    if (this.#closed) return;
    this.#log.warn(`scylla: worker ${this.name} lost the server: ${error instanceof Error ? error.message : String(error)}`);
  }

  async #call(text: string, values: (string | null)[], timeout = CALL_TIMEOUT): Promise<Row[]> {
    this.stats.statements++;
    return await this.#link.call(text, values, timeout);
  }

  // ---- WAIT ----

  async #waitLoop(): Promise<void> {
    for (let refused = 0; !this.#closed; ) {
      if (!this.#link.up) {
        await this.#change();
        continue;
      }
      try {
        // What is being fetched tells whether there is more.
        if (this.#reserved > 0 || (this.#more && this.#free() > 0)) await this.#change(SHORT_WAIT);
        // With work known, or while it drains, a worker hears only of its leases and of a request to stop.
        const since = performance.now() - this.#lastExchange;
        const flows = this.#full > 2 && since < SHORT_WAIT;
        const short = this.#more || flows || this.#draining !== undefined;
        const length = short ? Math.min(LONG_WAIT, Math.max(SHORT_WAIT, since / 4)) : WAIT;
        this.stats.statements++;
        const [row] = await this.#link.wait(
          "call scylla.wait_for_event($1::text, $2::text::text[], $3::text::interval, $4::text::text[], null, null)",
          [this.name, array(this.#queues), interval(length), short ? "{}" : this.#actions],
          length + CALL_TIMEOUT,
        );
        refused = 0;
        if (row?.event === "signal") await this.#beat();
        if (row?.event === "work") await this.#onWork();
        if (row?.event === "drain") {
          void this.stop();
          await sleep(250, this.#stopWait.signal);
        }
      } catch (error) {
        if (error instanceof NoAnswer) continue;
        this.#log.error("scylla: could not wait", error);
        await sleep(backOff(refused++), this.#stopWait.signal);
      }
    }
  }

  async #onWork(): Promise<void> {
    // Others were quicker, or a limit keeps the tasks back: not at once again and again.
    if (++this.#wakes > 2) await sleep(backOff(this.#wakes - 3, 1_000), this.#stopWait.signal);
    this.#more = true;
    this.#pump();
  }

  // ---- FETCH and SETTLE ----

  #free(): number {
    const taken = this.#running + this.#pending.length + this.#outbox.length + this.#reserved;
    return Math.max(0, this.#concurrency + this.#prefetch - taken);
  }

  // In the next turn of the event loop, so that all that ends in this one goes together.
  #pump(): void {
    if (this.#pumpAsked) return;
    this.#pumpAsked = true;
    setImmediate(() => {
      this.#pumpAsked = false;
      while (this.#next()) void this.#exchange();
    });
  }

  /** Whether a statement is to be sent now. */
  #next(): boolean {
    if (!this.#link.up || this.#exchanges >= this.#exchangesAtOnce) return false;
    if (this.#outbox.length > 0) {
      // Idle: nothing is under way, or no handler runs whose result could be gathered, too.
      if (this.#exchanges === 0 || this.#running === 0 || this.#gathered || this.#outbox.length >= ENOUGH) return true;
      this.#gatherTimer ??= setTimeout(() => {
        this.#gatherTimer = undefined;
        this.#gathered = true;
        this.#pump();
      }, this.#coalesce);
    }
    return this.#more && !this.#draining && !this.#ownAgain && this.#free() > 0;
  }

  /** Returns what has ended and owns what fits, in one statement. */
  async #exchange(): Promise<void> {
    const batch = this.#outbox.splice(0, BATCH);
    const wanted = this.#draining || this.#ownAgain ? 0 : Math.min(this.#free(), BATCH);
    this.#gathered = false;
    this.#exchanges++;
    this.#reserved += wanted;
    if (wanted > 0 && this.#full === 0) this.#more = false;
    const sentAt = performance.now();
    try {
      const rows = await this.#send(batch, wanted);
      this.#reserved -= wanted;
      if (wanted > 0) this.#owned(rows, wanted, sentAt);
    } catch (error) {
      this.#reserved -= wanted;
      if (error instanceof NoAnswer) this.#more = true;
      else this.#ownLater(error);
    } finally {
      this.#exchanges--;
      this.#lastExchange = performance.now();
      this.#notify();
      this.#pump();
    }
  }

  /** Sends both parts together. When the server refuses, each is sent alone: neither is held up by the other. */
  async #send(batch: Settlement[], wanted: number): Promise<Row[]> {
    const both = new Statement();
    const { task, none } = this.#columns;
    const own = wanted > 0 ? this.#ownCall(both, wanted) : undefined;
    if (batch.length === 0) {
      return own ? await this.#call(`select ${task} from ${own} o`, both.values) : [];
    }
    let returned: string;
    try {
      returned = this.#returnCall(both, batch);
      // the parts run in this order, so that what is returned makes room for what is owned
      const settled = (nulls: string) => `select to_json(s)::text as settled${nulls} from ${returned} s`;
      const text = own ? `${settled(`, ${none}`)} union all select null, ${task} from ${own} o` : settled("");
      const [first, ...rows] = await this.#call(text, both.values);
      await this.#answered(batch, first?.settled as string);
      return rows;
    } catch (error) {
      if (error instanceof NoAnswer) {
        for (const settlement of batch) settlement.sent = true;
        this.#outbox = [...batch, ...this.#outbox];
        throw error;
      }
      if (own) {
        await this.#send(batch, 0);
        return await this.#send([], wanted);
      }
      if (batch.length > 1) {
        for (const [at, settlement] of batch.entries()) {
          try {
            await this.#send([settlement], 0);
          } catch (lost) {
            this.#outbox.push(...batch.slice(at + 1));
            throw lost;
          }
        }
        return [];
      }
      return await this.#refused(batch[0]!, error);
    }
  }

  /** The server does not take the end of this task, for example a result that is too large. */
  async #refused(settlement: Settlement, error: unknown): Promise<Row[]> {
    const { held, outcome } = settlement;
    const state = sqlState(error) ?? "";
    if (!state.startsWith("22") && state !== "54000") {
      // it may be taken later: a dead-lock, a lack of memory, a privilege that is gone for now
      this.#log.error(`scylla: could not return task ${held.id}`, error);
      setTimeout(() => {
        this.#outbox.push(settlement);
        this.#pump();
      }, backOff(4));
      return [];
    }
    if (settlement.refused) {
      this.#log.error(`scylla: the end of task ${held.id} is refused`, error);
      this.#release(held);
      return [];
    }
    const code = outcome === "completed" ? "invalid_result" : "invalid_error";
    settlement.refused = true;
    settlement.outcome = outcome === "aborted" ? "aborted" : "retry";
    settlement.result = settlement.runAt = null;
    settlement.error = toJson({ code, description: describe(error).description, args: {} })!;
    return await this.#send([settlement], 0);
  }

  #ownCall(statement: Statement, wanted: number): string {
    const several = this.#queues.length > 1;
    const args = [
      statement.add(this.name, "text"),
      several ? statement.add(array(this.#queues), "text[]") : statement.add(this.#queues[0]!, "text"),
      statement.add(String(wanted), "int"),
      statement.add(this.#actions, "text[]"),
      statement.add(this.#lease, "interval"),
    ];
    return `scylla.${several ? "own_any" : "own_tasks"}(${args.join()})`;
  }

  #returnCall(statement: Statement, batch: Settlement[]): string {
    const args = [
      statement.add(words(batch.map(({ held }) => held.id)), "uuid[]"),
      statement.add(words(batch.map(({ held }) => held.token)), "uuid[]"),
      statement.add(words(batch.map(({ outcome }) => outcome)), "text[]"),
      statement.add(sparse(batch.map(({ result }) => result)), "jsonb[]"),
      statement.add(sparse(batch.map(({ error }) => error)), "jsonb[]"),
      statement.add(sparse(batch.map(({ runAt }) => runAt)), "timestamptz[]"),
    ];
    return `scylla.return_many(${args.join()})`;
  }

  async #answered(batch: Settlement[], statuses: string): Promise<void> {
    const answers = JSON.parse(statuses) as (string | null)[];
    for (const [at, settlement] of batch.entries()) {
      const { held, outcome, sent } = settlement;
      const done = answers[at] !== null || (sent && (await this.#wasDone(settlement)));
      this.#release(held);
      if (!done) {
        this.stats.lost++;
        this.#log.warn(`scylla: the lease of task ${held.id} was lost, its result is dropped`);
      } else {
        this.stats[({ completed: "completed", retry: "retried", aborted: "aborted", yield: "yielded" } as const)[outcome]]++;
      }
    }
  }

  /** Whether a return that had no answer was done. */
  async #wasDone({ held, outcome }: Settlement): Promise<boolean> {
    try {
      const [row] = await this.#call("select scylla.task($1::text::uuid)::text as entry", [held.id]);
      const entry = parseJson(row?.entry as string) as { status: string; history: { _typ: string; worker: string }[] };
      if (outcome === "completed" || outcome === "aborted") return entry.status === outcome;
      const type = outcome === "retry" ? "TaskRetry" : "TaskYield";
      return entry.history.some((event) => event._typ === type && event.worker === this.name);
    } catch (error) {
      // gone: a completed task that is not kept. Without a right to look, or an answer: most likely done
      return !(error instanceof TypeError);
    }
  }

  #owned(rows: Row[], wanted: number, sentAt: number): void {
    if (rows.length > 0) this.#wakes = 0;
    for (const row of rows) {
      const held = this.#hold(row, sentAt);
      this.stats.owned++;
      if (this.#draining) this.#settle(held, { outcome: "yield" });
      else this.#pending.push(held);
    }
    this.#begin();
    this.#full = rows.length === wanted ? this.#full + 1 : 0;
    this.#more = this.#full > 0 && this.#free() > 0;
    this.#arm();
  }

  /** The server refused to hand out tasks: asks again, later and later. */
  #ownLater(error: unknown): void {
    this.#log.error("scylla: could not own tasks", error);
    this.#ownAgain ??= setTimeout(
      () => {
        this.#ownAgain = undefined;
        this.#more = true;
        this.#pump();
      },
      backOff(++this.#wakes) + 50,
    );
  }

  // ---- tasks ----

  #hold(row: Row, sentAt: number): Held {
    const { id, token, deadline } = row;
    const length = row.lease === null ? Infinity : Number(row.lease);
    const lease: Lease = { id, token, deadline, length, fence: sentAt + FENCE * length, progress: null };
    const held: Held = Object.assign(lease, { task: new OwnedTask(row, this.#queues[0]!, lease), over: false });
    this.#held.set(held.token, held);
    return held;
  }

  #begin(): void {
    while (this.#pending.length > 0 && this.#running < this.#concurrency) void this.#run(this.#pending.shift()!);
  }

  async #run(held: Held): Promise<void> {
    const { task } = held;
    const handler = (this.#handlers.get(task.action) ?? this.#any)!;
    const limit = (typeof handler === "function" ? undefined : handler.timeLimit) ?? this.#timeLimit;
    const timers: NodeJS.Timeout[] = [];
    if (limit !== undefined) {
      timers.push(setTimeout(() => {
        const cause = new TimeLimitExceeded(`the handler ran longer than ${limit} ms`);
        OwnedTask.stop(task, cause);
        // A handler that does not listen keeps its place, and not the task.
        timers.push(setTimeout(() => this.#settle(held, { outcome: "retry", error: describe(cause) }), STOP_PATIENCE));
      }, limit));
    }
    this.#running++;
    const outcome = await runHandler(handler, task, this.#middleware);
    for (const timer of timers) clearTimeout(timer);
    this.#running--;
    this.#settle(held, outcome);
    this.#begin();
    this.#notify();
    this.#pump();
  }

  #settle(held: Held, outcome: Outcome): void {
    if (held.over) return;
    // After a process was frozen, the handler may end before the clock stops it.
    if (performance.now() > held.fence) return this.#stopHandler(held, new LeaseLost("no heartbeat in time"));
    held.over = true;
    this.#outbox.push(settlement(held, outcome));
    this.#pump();
  }

  /** Stops a handler whose result is of no interest any more. */
  #stopHandler(held: Held, cause: StopCause): void {
    if (held.over) return;
    held.over = true;
    this.stats[cause instanceof Cancelled ? "cancelled" : "lost"]++;
    this.#release(held);
    const at = this.#pending.indexOf(held);
    if (at >= 0) this.#pending.splice(at, 1);
    OwnedTask.stop(held.task, cause);
    this.#notify();
    this.#pump();
  }

  #release(held: Held): void {
    held.over = true;
    this.#held.delete(held.token);
  }

  // ---- BEAT and FENCE ----

  /** Sets the clock for the next heartbeat, or the next fence if that is sooner. */
  #arm(): void {
    clearTimeout(this.#clock);
    this.#clock = undefined;
    if (this.#held.size === 0) {
      this.#nextBeat = Infinity;
      return;
    }
    let lease = Infinity;
    let fence = Infinity;
    for (const held of this.#held.values()) {
      lease = Math.min(lease, held.length);
      if (!held.over) fence = Math.min(fence, held.fence);
    }
    const now = performance.now();
    const period = (lease === Infinity ? ENDLESS_BEAT : Math.min(lease / 3, LONGEST_TIMER)) * (0.9 + Math.random() * 0.2);
    this.#nextBeat = Math.min(this.#nextBeat, now + period);
    this.#clock = setTimeout(() => this.#tick(), Math.min(LONGEST_TIMER, Math.max(1, Math.min(this.#nextBeat, fence) - now)));
  }

  #tick(): void {
    const now = performance.now();
    for (const held of [...this.#held.values()]) {
      if (!held.over && now >= held.fence) this.#stopHandler(held, new LeaseLost("no heartbeat in time"));
    }
    if (now >= this.#nextBeat - 1) {
      this.#nextBeat = Infinity;
      if (this.#link.up) void this.#beat();
    }
    this.#arm();
  }

  /** Extends every lease, and hears which are over. */
  async #beat(on?: Connection): Promise<void> {
    if (on) return void (await this.#beatOnce(on));
    this.#beatAgain = true;
    this.#beating ??= this.#beats().finally(() => {
      this.#beating = undefined;
      this.#arm();
    });
    await this.#beating;
  }

  async #beats(): Promise<void> {
    try {
      while (this.#beatAgain) {
        this.#beatAgain = false;
        if (this.#held.size > 0) await this.#beatOnce();
      }
    } catch (error) {
      if (error instanceof NoAnswer) return;
      this.#log.error("scylla: heartbeat failed", error);
      this.#nextBeat = performance.now() + backOff(3);
    }
  }

  async #beatOnce(on?: Connection): Promise<void> {
    const all = [...this.#held.values()];
    const told = all.map((held) => held.progress);
    const values = [
      this.name,
      words(all.map((held) => held.id)),
      words(all.map((held) => held.token)),
      sparse(told.map((progress) => (progress === null ? null : String(progress)))),
    ];
    const text =
      "select state, date_part('epoch', deadline) * 1000 as deadline, date_part('epoch', deadline - clock_timestamp()) * 1000 as lease " +
      "from scylla.heartbeat($1::text, $2::text::uuid[], $3::text::uuid[], null, $4::text::float8[])";
    const shortest = all.reduce((least, held) => Math.min(least, held.length), 60_000);
    const sentAt = performance.now();
    let rows;
    if (on) {
      this.stats.statements++;
      rows = await this.#link.query(on, text, values, shortest / 6);
    } else {
      rows = await this.#call(text, values, shortest / 6);
    }
    for (const [at, held] of all.entries()) {
      const { state, deadline, lease } = rows[at] ?? {};
      if (state === "held") {
        held.length = lease === null ? Infinity : Number(lease);
        held.fence = sentAt + FENCE * held.length;
        held.deadline = deadline;
        if (held.progress === told[at]) held.progress = null;
      } else if (!held.over) {
        const gone = state === "cancelled" || state === "gone";
        this.#stopHandler(held, gone ? new Cancelled(state === "gone" ? "the task was deleted" : "the task was cancelled") : new LeaseLost(`the lease is over: ${state}`));
      }
    }
  }

  // ---- DRAIN ----

  async #drain(grace: number): Promise<void> {
    if (this.#started === undefined) return await this.#close();
    this.#log.info(`scylla: worker ${this.name} drains`);
    const end = performance.now() + grace;
    for (const held of this.#pending.splice(0)) this.#settle(held, { outcome: "yield" });
    await this.#until(() => this.#active() === 0, end);
    if (this.#active() > 0) {
      for (const held of [...this.#held.values()]) {
        if (!held.over) OwnedTask.stop(held.task, new Shutdown("the worker stops"));
      }
      await this.#until(() => this.#active() === 0, performance.now() + STOP_PATIENCE);
      for (const held of [...this.#held.values()]) this.#settle(held, { outcome: "yield" });
    }
    const last = this.#impatient ? performance.now() + 1_500 : Math.max(end, performance.now()) + 1_500;
    await this.#until(() => this.#outbox.length === 0 && this.#exchanges === 0, last, true);
    if (this.#outbox.length > 0) this.#log.warn(`scylla: ${this.#outbox.length} results could not be delivered`);
    await this.#close();
  }

  /** The second signal: hands back every task at once. */
  #hurry(): void {
    this.#impatient = true;
    this.#notify();
  }

  /** How many handlers run whose end is still of interest. */
  #active(): number {
    let active = 0;
    for (const held of this.#held.values()) if (!held.over) active++;
    return active;
  }

  async #close(): Promise<void> {
    this.#closed = true;
    this.#stopWait.abort();
    clearTimeout(this.#clock);
    clearTimeout(this.#gatherTimer);
    clearTimeout(this.#ownAgain);
    await this.#link.close();
    this.#notify();
    this.#log.info(`scylla: worker ${this.name} has stopped`);
    this.#finish();
  }

  /** Waits until something holds, to a point in time; a second signal ends it, unless it is `firm`. */
  async #until(holds: () => boolean, end: number, firm = false): Promise<void> {
    while (!holds() && (firm || !this.#impatient)) {
      const left = end - performance.now();
      if (left <= 0) return;
      await this.#change(left);
    }
  }

  #notify(): void {
    for (const changed of this.#changed.splice(0)) changed();
  }

  #change(within?: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = within === undefined ? undefined : setTimeout(resolve, within);
      this.#changed.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }
}

function settlement(held: Held, end: Outcome): Settlement {
  let { outcome } = end;
  let result: string | null = null;
  let error: string | null = null;
  let runAt: string | null = null;
  try {
    if ("result" in end) result = toJson(end.result) ?? null;
    if ("error" in end) error = toJson(end.error) ?? null;
    if ("until" in end && end.until !== undefined) runAt = timestamp(end.until);
  } catch (thrown) {
    // no JSON, for example a circle
    if (outcome !== "aborted") outcome = "retry";
    error = toJson(describe(thrown)) ?? null;
  }
  return { held, outcome, result, error, runAt, sent: false, refused: false };
}

/** Milliseconds: full jitter, doubling from 100 ms. */
function backOff(failures: number, most = 10_000): number {
  return Math.random() * Math.min(most, 100 * 2 ** failures);
}

function positive(name: string, value: number): number {
  if (!Number.isInteger(value) || value < 1) throw new RangeError(`${name} is a whole number from 1, not ${value}`);
  return value;
}
