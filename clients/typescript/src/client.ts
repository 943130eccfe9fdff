import { NotFoundError, TaskFailedError, translate, type TaskError } from "./errors.js";
import { issuesText, type InputOf, type TaskDefinition } from "./handler.js";
import { parseJson, toJson } from "./json.js";
import { array, interval, moment, Statement, type Interval, type Queryable } from "./sql.js";

/** The arguments of `scylla.submit` beside queue and spec. What is left out is the server's default. */
export interface SubmitOptions {
  action?: string;
  /** 0 to 4294967295, higher runs first. */
  priority?: number;
  id?: string;
  /** A name that is unique among the queue's unfinished tasks. */
  key?: string;
  /** What to do when the key is taken: raise 23505, give the existing task's id, or cancel that task. */
  onConflict?: "error" | "ignore" | "replace";
  /** Not before. */
  runAt?: Date;
  /** `runAt` from now, by the server's clock. */
  delay?: Interval;
  /** Ids of tasks that must settle first. */
  after?: readonly string[];
  onFailure?: "abort" | "run";
  /** 0: no limit. */
  maxTries?: number;
  retryInterval?: Interval;
  retryJitter?: Interval;
  /** The length of a lease, without a heartbeat: `timeout` of `scylla.submit`. */
  lease?: Interval;
  /** Allows `wait` and `result`. */
  postResult?: boolean;
  groupKey?: string;
  /** An object for clients, such as trace context and tags; scylla does not interpret it. */
  meta?: Record<string, unknown>;
  /** With `key`: the key stays taken this long, though the task has settled. */
  uniqueFor?: Interval;
}

/** Arguments of `submitMany` that hold for all, and lists with an entry for each spec. */
export interface SubmitManyOptions extends Pick<
  SubmitOptions,
  "action" | "priority" | "runAt" | "delay" | "maxTries" | "retryInterval" | "retryJitter" | "lease" | "postResult" | "meta"
> {
  ids?: readonly (string | null)[];
  keys?: readonly (string | null)[];
  groupKeys?: readonly (string | null)[];
  /** So many specs a statement. Without it one statement submits all or nothing (up to 100,000). */
  batch?: number;
}

export interface Submission extends SubmitOptions {
  queue: string;
  spec?: unknown;
}

/** How an element of `submitTasks` ended. */
export interface Submitted {
  /** Null for an invalid element that has no valid id. */
  id: string | null;
  outcome: "inserted" | "duplicate" | "invalid";
  error: string | null;
}

/** How a task ended. */
export interface Settled {
  status: "completed" | "aborted" | "cancelled";
  result: unknown;
  errors: TaskError[];
}

export interface WaitOptions {
  /** Milliseconds, a minute unless given. */
  timeout?: number;
  signal?: AbortSignal;
}

/** Goes around each submission: `next` submits it. */
export type SubmitMiddleware = (submission: Submission, next: (submission: Submission) => Promise<unknown>) => Promise<unknown>;

export interface ClientOptions {
  middleware?: readonly SubmitMiddleware[];
}

/** The id; null only with `ignore`, for a role that may not look at the existing task. */
type IdOf<Options> = Options extends { onConflict: "ignore" } ? string | null : string;

const PIECE = 5_000;

/** Submits tasks, waits for their results, cancels them, and asks about them. */
export class Client {
  /** @param db a pool or connection of `pg`, or what an adapter makes of another driver */
  constructor(
    private readonly db: Queryable,
    private readonly options: ClientOptions = {},
  ) {}

  /** The same client in the caller's transaction: what it submits is there when that commits. */
  with(transaction: Queryable): Client {
    return new Client(transaction, this.options);
  }

  /** Submits a task, and gives its id. */
  submit<const Options extends SubmitOptions>(queue: string, spec?: unknown, options?: Options): Promise<IdOf<Options>>;
  submit<Definition extends TaskDefinition, const Options extends Omit<SubmitOptions, "action">>(
    definition: Definition,
    spec: InputOf<Definition>,
    options?: Options,
  ): Promise<IdOf<Options>>;
  async submit(to: string | TaskDefinition, spec?: unknown, options: SubmitOptions = {}): Promise<string | null> {
    const target = await this.target(to, [spec]);
    const chain = (this.options.middleware ?? []).reduceRight<(submission: Submission) => Promise<unknown>>(
      (next, around) => async (submission) => await around(submission, next),
      (submission) => this.insert(submission),
    );
    return (await chain({ ...options, ...target, ...(spec === undefined ? {} : { spec }) })) as string | null;
  }

  private async insert({ queue, spec, ...options }: Submission): Promise<string | null> {
    const statement = new Statement();
    const args = [`queue => ${statement.add(queue, "text")}`];
    if (spec !== undefined) args.push(`spec => ${statement.add(required(spec), "jsonb")}`);
    args.push(...optionArgs(statement, options));
    return (await this.row(`select scylla.submit(${args.join()})::text as id`, statement.values)).id;
  }

  /**
   * Submits a task for each spec, and gives their ids in order. All or nothing, unless `batch` is given:
   * then that holds for each batch.
   */
  submitMany(queue: string, specs: readonly unknown[], options?: SubmitManyOptions): Promise<string[]>;
  submitMany<Definition extends TaskDefinition>(
    definition: Definition,
    specs: readonly InputOf<Definition>[],
    options?: Omit<SubmitManyOptions, "action">,
  ): Promise<string[]>;
  async submitMany(to: string | TaskDefinition, specs: readonly unknown[], options: SubmitManyOptions = {}): Promise<string[]> {
    const target = await this.target(to, specs);
    const { ids, keys, groupKeys, batch = Math.max(specs.length, 1), ...shared } = options;
    for (const list of [ids, keys, groupKeys]) {
      if (list && list.length !== specs.length) throw new RangeError(`${list.length} entries for ${specs.length} specs`);
    }
    if (!(batch >= 1)) throw new RangeError(`a batch of ${batch}`);
    const chain = (this.options.middleware ?? []).reduceRight<(submission: Submission) => Promise<unknown>>(
      (next, around) => async (submission) => await around(submission, next),
      async ({ queue, spec: _, ...rest }) => {
        const given: string[] = [];
        for (let from = 0; from < specs.length; from += batch) {
          const statement = new Statement();
          const part = <Value>(list: readonly Value[]) => list.slice(from, from + batch);
          const args = [
            `queue => ${statement.add(queue, "text")}`,
            `specs => ${statement.add(array(part(specs).map(required)), "jsonb[]")}`,
            ...optionArgs(statement, rest),
          ];
          if (ids) args.push(`ids => ${statement.add(array(part(ids)), "uuid[]")}`);
          if (keys) args.push(`keys => ${statement.add(array(part(keys)), "text[]")}`);
          if (groupKeys) args.push(`group_keys => ${statement.add(array(part(groupKeys)), "text[]")}`);
          const { ids: made } = await this.row(
            `select to_json(scylla.submit_many(${args.join()}))::text as ids`,
            statement.values,
          );
          for (const id of JSON.parse(made) as string[]) given.push(id);
        }
        return given;
      },
    );
    return (await chain({ ...shared, ...target })) as string[];
  }

  /**
   * Submits tasks of any queues, which may come after one another. With `atomic`, the default, a duplicate
   * or invalid one raises and nothing is submitted; else each tells its outcome. Middleware is not called.
   */
  async submitTasks(tasks: readonly Omit<Submission, "delay">[], options: { atomic?: boolean } = {}): Promise<Submitted[]> {
    const statement = new Statement();
    const elements = statement.add(required(tasks.map(element)), "jsonb");
    const atomic = statement.add(String(options.atomic ?? true), "boolean");
    const rows = await this.rows(
      `select id::text as id, outcome, error from scylla.submit_tasks(${elements}, ${atomic})`,
      statement.values,
    );
    return rows.map(({ id, outcome, error }) => ({ id, outcome, error }));
  }

  /**
   * Waits until a task has settled; undefined when the time is over. The task must have been submitted
   * with `postResult`. Not inside a transaction. The connection is taken for at most 5 seconds at a time.
   */
  async wait(id: string, { timeout = 60_000, signal }: WaitOptions = {}): Promise<Settled | undefined> {
    const end = performance.now() + timeout;
    for (;;) {
      signal?.throwIfAborted();
      const piece = Math.max(0, Math.min(PIECE, end - performance.now()));
      const row = await abortable(
        this.row("call scylla.wait_for_task($1::text::uuid, $2::text::interval, null, null)", [id, interval(piece)]),
        signal,
      );
      if (row.status !== null) return await this.settled(id, row.status, row.result);
      if (performance.now() >= end) return undefined;
    }
  }

  // The driver has parsed the result of a CALL in its own way: the entry has it without loss.
  private async settled(id: string, status: Settled["status"], result: unknown): Promise<Settled> {
    try {
      const entry = await this.task(id);
      return { status, result: entry.result, errors: entry.errors };
    } catch (error) {
      if (error instanceof NotFoundError) return { status, result, errors: [] }; // retention was quicker
      throw error;
    }
  }

  /** Waits as `wait` does, and gives the result. Throws TaskFailedError when the task was aborted or cancelled. */
  async result<Result = unknown>(id: string, options?: WaitOptions): Promise<Result> {
    const settled = await this.wait(id, options);
    if (!settled) throw new DOMException(`task ${id} has not settled in time`, "TimeoutError");
    if (settled.status !== "completed") throw new TaskFailedError(id, settled.status, settled.errors);
    return settled.result as Result;
  }

  /** Cancels a task; false: it had settled. */
  async cancel(id: string): Promise<boolean> {
    return (await this.json("scylla.cancel($1::text::uuid)", [id])) as boolean;
  }

  /** Cancels tasks; null: no such task. */
  async cancelMany(ids: readonly string[]): Promise<(boolean | null)[]> {
    return (await this.json("scylla.cancel_tasks($1::text::uuid[])", [array(ids)])) as (boolean | null)[];
  }

  /** Cancels the unfinished tasks of a group, and gives their number. */
  async cancelGroup(queue: string, groupKey: string): Promise<number> {
    return (await this.json("scylla.cancel_group($1::text, $2::text)", [queue, groupKey])) as number;
  }

  /** Postpones a task; false: it runs, or has settled. */
  async delay(id: string, until: Date): Promise<boolean> {
    return (await this.json("scylla.delay(task => $1::text::uuid, until => $2::text::timestamptz)", [id, moment(until)])) as boolean;
  }

  /** Deletes tasks and, in turn, dependents with nothing left to wait for. Gives the number deleted. */
  async delete(ids: readonly string[]): Promise<number> {
    return (await this.json("scylla.delete_tasks($1::text::uuid[])", [array(ids)])) as number;
  }

  /** Submits aborted and cancelled tasks again, and gives the new ids; null: no such task, or not one of these. */
  async resubmit(ids: readonly string[]): Promise<(string | null)[]> {
    return (await this.json("scylla.resubmit($1::text::uuid[])", [array(ids)])) as (string | null)[];
  }

  /** Says in one sentence why a task is not running. */
  async why(id: string): Promise<string> {
    return (await this.json("scylla.why($1::text::uuid)", [id])) as string;
  }

  /** A task's entry, as `scylla.task` has it. */
  async task(id: string): Promise<Entry> {
    return entryOf((await this.json("scylla.task($1::text::uuid)", [id])) as Record<string, any>);
  }

  /** The id of the unfinished task with this key; null: none. */
  async taskId(queue: string, key: string): Promise<string | null> {
    return (await this.json("scylla.task_id($1::text, $2::text)", [queue, key])) as string | null;
  }

  /** Asks a worker to stop; false: no such worker. */
  async drainWorker(worker: string): Promise<boolean> {
    return (await this.json("scylla.drain_worker($1::text)", [worker])) as boolean;
  }

  private async target(to: string | TaskDefinition, specs: readonly unknown[]): Promise<{ queue: string; action?: string }> {
    if (typeof to === "string") return { queue: to };
    for (const [at, spec] of specs.entries()) {
      const checked = await to.schema["~standard"].validate(spec);
      if (checked.issues) throw new TypeError(`invalid spec ${specs.length > 1 ? `${at} ` : ""}of ${to.queue}/${to.action}: ${issuesText(checked.issues)}`);
    }
    return { queue: to.queue, action: to.action };
  }

  private async json(expression: string, values: (string | null)[]): Promise<unknown> {
    const { value } = await this.row(`select to_json(${expression})::text as value`, values);
    return value === null ? null : parseJson(value);
  }

  private async row(text: string, values: (string | null)[]) {
    const [row] = await this.rows(text, values);
    if (!row) throw new Error("the server gave no row");
    return row;
  }

  private async rows(text: string, values: (string | null)[]) {
    try {
      return (await this.db.query(text, values)).rows;
    } catch (error) {
      throw translate(error);
    }
  }
}

/** What `scylla.task` shows. */
export interface Entry {
  id: string;
  queue: string;
  action: string;
  key: string | null;
  spec: unknown;
  priority: number;
  status: "waiting" | "ready" | "running" | "completed" | "aborted" | "cancelled";
  progress: number;
  created: Date;
  updated: Date;
  runAt: Date | null;
  deadline: Date | null;
  owner: string | null;
  tries: number;
  maxTries: number | null;
  numFailures: number;
  after: string[];
  errors: TaskError[];
  result: unknown;
  history: TaskEvent[];
  groupKey: string | null;
  meta: Record<string, unknown> | null;
  resubmittedFrom: string | null;
}

/** What became of a task: an entry of its history. */
export interface TaskEvent {
  type: "TaskAssignment" | "TaskTimeout" | "TaskYield" | "TaskRetry";
  worker: string;
  time: Date;
  progress?: number;
}

function entryOf(row: Record<string, any>): Entry {
  const date = (text: string | null | undefined) => (text == null ? null : new Date(text));
  return {
    id: row.rn, queue: row.queue, action: row.action, key: row.key, spec: row.spec, priority: row.priority, status: row.status,
    progress: row.progress, created: new Date(row.created), updated: new Date(row.updated), runAt: date(row.run_at),
    deadline: date(row.deadline), owner: row.owner, tries: row.tries, maxTries: row.max_tries, numFailures: row.num_failures,
    after: row.after ?? [], errors: row.errors ?? [], result: row.result ?? null, groupKey: row.group_key, meta: row.meta ?? null,
    resubmittedFrom: row.resubmitted_from ?? null,
    history: (row.history ?? []).map(({ _typ, time, ...rest }: Record<string, any>) => ({ type: _typ, time: new Date(time), ...rest })),
  };
}

/** Each argument of `scylla.submit`: name in SQL, type, and how its value is written. */
const ARGUMENTS: Record<keyof SubmitOptions, [name: string, type: string, write: (value: any) => string]> = {
  action: ["action", "text", String],
  priority: ["priority", "bigint", String],
  id: ["id", "uuid", String],
  key: ["key", "text", String],
  onConflict: ["on_conflict", "text", String],
  runAt: ["run_at", "timestamptz", moment],
  delay: ["run_at", "interval", interval],
  after: ["after", "uuid[]", array],
  onFailure: ["on_failure", "text", String],
  maxTries: ["max_tries", "int", String],
  retryInterval: ["retry_interval", "interval", interval],
  retryJitter: ["retry_jitter", "interval", interval],
  lease: ["timeout", "interval", interval],
  postResult: ["post_result", "boolean", String],
  groupKey: ["group_key", "text", String],
  meta: ["meta", "jsonb", required],
  uniqueFor: ["unique_for", "interval", interval],
};

function* given(options: object): Generator<[key: keyof SubmitOptions, value: unknown]> {
  for (const [key, value] of Object.entries(options)) {
    if (value === undefined || value === null) continue;
    if (!Object.hasOwn(ARGUMENTS, key)) throw new TypeError(`unknown option: ${key}`);
    yield [key as keyof SubmitOptions, value];
  }
}

function optionArgs(statement: Statement, options: SubmitOptions): string[] {
  if (options.runAt && options.delay !== undefined) throw new TypeError("runAt and delay are both given");
  return [...given(options)].map(([key, value]) => {
    const [name, type, write] = ARGUMENTS[key];
    const placeholder = statement.add(write(value), type);
    return `${name} => ${key === "delay" ? "clock_timestamp() + " : ""}${placeholder}`;
  });
}

/** A submission as an element of `scylla.submit_tasks`. */
function element({ queue, spec, ...options }: Omit<Submission, "delay">): Record<string, unknown> {
  const members: Record<string, unknown> = { queue };
  if (spec !== undefined) members.spec = spec;
  if ((options as SubmitOptions).delay !== undefined) throw new TypeError("submitTasks takes runAt, not delay");
  for (const [key, value] of given(options)) {
    const [name, type, write] = ARGUMENTS[key];
    members[name] = type === "interval" || type === "timestamptz" ? write(value) : value;
  }
  return members;
}

function required(value: unknown): string {
  const text = toJson(value);
  if (text === undefined) throw new TypeError(`not a JSON value: ${String(value)}`);
  return text;
}

function abortable<Value>(promise: Promise<Value>, signal: AbortSignal | undefined): Promise<Value> {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}
