import type { StopCause, Task } from "./handler.js";
import { parseJson } from "./json.js";
import type { Row } from "./sql.js";

// What is read of a task `o`, a row of `own_tasks` or `own_any`: each as text or as a number of the driver's, so that
// no driver parses it in its own way. One column of JSON would take the server several times as long.
const COLUMNS = {
  id: "o.id::text", token: "o.token::text", action: "o.action", spec: "o.spec::text", key: "o.key", group_key: "o.group_key",
  priority: "o.priority::text", tries: "o.tries", max_tries: "o.max_tries", num_failures: "o.num_failures", meta: "o.meta::text",
  created: "date_part('epoch', o.created) * 1000", deadline: "date_part('epoch', o.deadline) * 1000",
  lease: "date_part('epoch', o.deadline - clock_timestamp()) * 1000",
};

/** The columns of a task, and as many nulls. `several`: the queue is among them. */
export function taskColumns(several: boolean): { task: string; none: string } {
  const all = Object.entries(several ? { ...COLUMNS, queue: "o.queue" } : COLUMNS);
  const list = (value: (expression: string) => string) => all.map(([name, of]) => `${value(of)} as ${name}`).join();
  return { task: list((expression) => expression), none: list(() => "null") };
}

/** What a worker knows of a task until its end is settled. */
export interface Lease {
  id: string;
  token: string;
  /** The length of the lease in ms; Infinity: never expires. */
  length: number;
  /** When the handler is stopped unless a heartbeat succeeds before: 0.9 of the lease, monotonic. */
  fence: number;
  /** In ms since 1970. */
  deadline: number | null;
  /** Not told to the server yet. */
  progress: number | null;
}

/** A task as its handler sees it. Most handlers never look at the signal, so it is made when they do. */
export class OwnedTask implements Task {
  readonly id: string;
  readonly queue: string;
  readonly action: string;
  readonly spec: unknown;
  readonly key: string | null;
  readonly groupKey: string | null;
  readonly priority: number;
  readonly tries: number;
  readonly maxTries: number;
  readonly numFailures: number;
  readonly created: Date;
  readonly meta: Record<string, unknown> | null;
  readonly progress: (fraction: number) => void;
  readonly #lease: Lease;
  #controller: AbortController | undefined;
  #cause: StopCause | undefined;

  /** @param row of `taskColumns` */
  constructor(row: Row, queue: string, lease: Lease) {
    this.id = row.id;
    this.queue = row.queue ?? queue;
    this.action = row.action;
    this.spec = row.spec === null ? null : parseJson(row.spec);
    this.key = row.key;
    this.groupKey = row.group_key;
    this.priority = Number(row.priority);
    this.tries = row.tries;
    this.maxTries = row.max_tries;
    this.numFailures = row.num_failures;
    this.created = new Date(Math.round(row.created));
    this.meta = row.meta === null ? null : (parseJson(row.meta) as Record<string, unknown>);
    this.#lease = lease;
    this.progress = (fraction) => {
      if (!(fraction >= 0 && fraction <= 1)) throw new RangeError(`progress is from 0 to 1, not ${fraction}`);
      lease.progress = fraction;
    };
  }

  get deadline(): Date | null {
    return this.#lease.deadline === null ? null : new Date(Math.round(this.#lease.deadline));
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#cause) this.#controller.abort(this.#cause);
    }
    return this.#controller.signal;
  }

  /** For the worker: tells the handler to stop. The first cause stays. */
  static stop(task: OwnedTask, cause: StopCause): void {
    task.#cause ??= cause;
    task.#controller?.abort(cause);
  }
}
