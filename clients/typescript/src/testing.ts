// Helpers for the tests of an application: run what is ready now in this process, see what was submitted.
import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { isObject } from "./errors.js";
import { runHandler, type HandleMiddleware, type Handlers, type Outcome } from "./handler.js";
import { parseJson, toJson } from "./json.js";
import { OwnedTask, taskColumns } from "./owned-task.js";
import { array, timestamp, type Queryable } from "./sql.js";

export interface RunOptions {
  queues: string | readonly string[];
  handlers: Handlers;
  middleware?: readonly HandleMiddleware[];
  /** Stops after so many tasks, 1,000 unless given. */
  max?: number;
}

/** A task that `runReady` has run. */
export interface Ran {
  id: string;
  queue: string;
  action: string;
  spec: unknown;
  outcome: Outcome["outcome"];
  result?: unknown;
  /** What the handler threw, if it did. */
  thrown?: unknown;
}

/**
 * Runs what is ready, one task after the other, until nothing is; what the handlers submit, too.
 * Tasks must be committed. A retry or a later time is not waited for.
 */
export async function runReady(db: Queryable, { queues, handlers, middleware = [], max = 1_000 }: RunOptions): Promise<Ran[]> {
  const { "*": any, ...named } = handlers;
  const worker = `testing-${randomUUID()}`;
  const ran: Ran[] = [];
  const { task: columns } = taskColumns(true);
  while (ran.length < max) {
    const { rows: [row] } = await db.query(
      `select ${columns} from scylla.own_any($1::text, $2::text::text[], 1, $3::text::text[], '1 hour') o`,
      [worker, array(typeof queues === "string" ? [queues] : queues), any ? null : array(Object.keys(named))],
    );
    if (!row) break;
    const { id, token, deadline } = row;
    const task = new OwnedTask(row, row.queue, { id, token, deadline, length: Infinity, fence: Infinity, progress: null });
    const { queue, action, spec } = task; // the handler's spec is what its schema makes of it
    const end = await runHandler((Object.hasOwn(named, action) ? named[action] : any)!, task, middleware);
    await db.query(
      "select scylla.return_task($1::text::uuid, $2::text::uuid, $3::text, $4::text::jsonb, $5::text::jsonb, $6::text::timestamptz)",
      [
        id, token, end.outcome,
        "result" in end ? (toJson(end.result) ?? null) : null,
        "error" in end ? (toJson(end.error) ?? null) : null,
        "until" in end && end.until !== undefined ? timestamp(end.until) : null,
      ],
    );
    ran.push({
      id, queue, action, spec, outcome: end.outcome,
      ...("result" in end ? { result: end.result } : {}),
      ...("thrown" in end ? { thrown: end.thrown } : {}),
    });
    if (end.outcome === "yield" && end.until === undefined) break; // it would come again at once
  }
  return ran;
}

/** What a task must have to be found by `submitted`. An object in `spec` may have more members. */
export interface Expected {
  queue?: string;
  action?: string;
  spec?: unknown;
  key?: string;
  groupKey?: string;
}

export interface FoundTask {
  id: string;
  queue: string;
  action: string;
  spec: unknown;
  key: string | null;
  groupKey: string | null;
  status: string;
}

/** The tasks that fit, oldest first. In a transaction it sees what that has submitted, committed or not. */
export async function submitted(db: Queryable, expected: Expected = {}): Promise<FoundTask[]> {
  const { rows } = await db.query(
    "select json_build_object('id', id, 'queue', queue, 'action', action, 'spec', spec, 'key', key, 'groupKey', group_key, " +
      "'status', status)::text as task from scylla.tasks where $1::text is null or queue = $1::text order by created, id",
    [expected.queue ?? null],
  );
  return rows
    .map(({ task }) => parseJson(task) as FoundTask)
    .filter((task) =>
      Object.entries(expected).every(([name, value]) => value === undefined || contains(task[name as keyof FoundTask], value)),
    );
}

/** Throws unless a task that fits was submitted; gives the first one. */
export async function assertSubmitted(db: Queryable, expected: Expected): Promise<FoundTask> {
  const [found] = await submitted(db, expected);
  if (found) return found;
  const others = await submitted(db, expected.queue === undefined ? {} : { queue: expected.queue });
  throw new Error(
    `no task was submitted with ${toJson(expected)}; there ${others.length === 1 ? "is" : "are"} ${others.length}` +
      others.slice(0, 5).map((task) => `\n  ${toJson(task)}`).join(""),
  );
}

function contains(actual: unknown, expected: unknown): boolean {
  if (!isObject(actual) || !isObject(expected) || Array.isArray(expected)) return isDeepStrictEqual(actual, expected);
  return Object.entries(expected).every(([name, value]) => contains(actual[name], value));
}
