import type { StopCause, Task } from "./handler.js";

/** What a worker knows of a task until its end is settled. */
export interface Lease {
  id: string;
  token: string;
  /** The length of the lease in ms; Infinity: never expires. */
  length: number;
  /** When the handler is stopped unless a heartbeat succeeds before: 0.9 of the lease, monotonic. */
  fence: number;
  deadline: string | null;
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

  /** @param row a row of `own_tasks` or `own_any` */
  constructor(row: Record<string, any>, queue: string, lease: Lease) {
    this.id = row.id;
    this.queue = row.queue ?? queue;
    this.action = row.action;
    this.spec = row.spec;
    this.key = row.key;
    this.groupKey = row.group_key;
    this.priority = row.priority;
    this.tries = row.tries;
    this.maxTries = row.max_tries;
    this.numFailures = row.num_failures;
    this.created = new Date(row.created);
    this.meta = row.meta;
    this.#lease = lease;
    this.progress = (fraction) => {
      if (!(fraction >= 0 && fraction <= 1)) throw new RangeError(`progress is from 0 to 1, not ${fraction}`);
      lease.progress = fraction;
    };
  }

  get deadline(): Date | null {
    return this.#lease.deadline === null ? null : new Date(this.#lease.deadline);
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
