import { isObject, type TaskError } from "./errors.js";
import { storable } from "./sql.js";
import type { StandardSchema, InferInput, InferOutput } from "./standard-schema.js";

/** What a handler gets. */
export interface Task<Spec = unknown> {
  readonly id: string;
  readonly queue: string;
  readonly action: string;
  readonly spec: Spec;
  readonly key: string | null;
  readonly groupKey: string | null;
  readonly priority: number;
  /** How many times the task was owned, this time included. */
  readonly tries: number;
  /** What holds for the task now; 0: no limit. */
  readonly maxTries: number;
  /** How many tasks it came after were aborted or cancelled. */
  readonly numFailures: number;
  readonly created: Date;
  readonly meta: Record<string, unknown> | null;
  /** When the lease ends unless a heartbeat extends it; null: never. */
  readonly deadline: Date | null;
  /** Aborted when the handler has to stop. `signal.reason` is a StopCause. */
  readonly signal: AbortSignal;
  /** Notes how far the task is, from 0 to 1. It travels with the next heartbeat. */
  progress(fraction: number): void;
}

/** Does the work. What it returns is the task's result. */
export type HandlerFunction<Spec = unknown> = (task: Task<Spec>) => unknown;

export interface HandlerOptions {
  /** Milliseconds after which the handler is stopped (cause `TimeLimitExceeded`) and the task tried again. */
  timeLimit?: number;
}

/** A handler with a schema or a limit of its own. Made by `handle`. */
export interface Handler extends HandlerOptions {
  readonly schema?: StandardSchema | undefined;
  readonly run: HandlerFunction<never>;
}

/** Handlers by action. `"*"` handles each action that has no handler of its own. */
export type Handlers = Record<string, HandlerFunction<any> | Handler>;

/** One kind of task: where it goes, and what its spec is. Shared by those who submit and those who work. */
export interface TaskDefinition<Schema extends StandardSchema = StandardSchema> {
  readonly queue: string;
  readonly action: string;
  readonly schema: Schema;
}

/** Names a kind of task, with the schema of its spec (zod, valibot, arktype … any Standard Schema). */
export function defineTask<Schema extends StandardSchema>(queue: string, action: string, schema: Schema): TaskDefinition<Schema> {
  return { queue, action, schema };
}

export type InputOf<Definition> = Definition extends TaskDefinition<infer Schema> ? InferInput<Schema> : never;

/** A handler whose spec is checked against a schema, and typed by it. One that does not fit is a retry. */
export function handle<Schema extends StandardSchema>(
  of: Schema | TaskDefinition<Schema>,
  run: HandlerFunction<InferOutput<Schema>>,
  options: HandlerOptions = {},
): Handler {
  return { schema: "~standard" in of ? of : of.schema, run, ...options };
}

/** Ends the task as aborted: final, no retry. */
export class Abort extends Error {
  override readonly name = "Abort";
  constructor(
    readonly code: string,
    description = "",
    readonly args: Record<string, unknown> = {},
  ) {
    super(description);
  }
}

/** Hands the task back for later. The try is not counted. */
export class Snooze extends Error {
  override readonly name = "Snooze";
  /** @param until milliseconds from now, or a Date */
  constructor(readonly until: number | Date) {
    super("snooze");
    if (!Number.isFinite(typeof until === "number" ? until : until.getTime())) throw new RangeError("snooze until when?");
  }
}

/** Why a handler has to stop: `task.signal.reason` is one of the four below. */
export abstract class StopCause extends Error {}
/** The task was cancelled or deleted. */
export class Cancelled extends StopCause {
  override readonly name = "Cancelled";
}
/** The lease is over, or may be: another worker may own the task. */
export class LeaseLost extends StopCause {
  override readonly name = "LeaseLost";
}
/** The handler ran longer than its limit. */
export class TimeLimitExceeded extends StopCause {
  override readonly name = "TimeLimitExceeded";
  readonly code = "time_limit";
}
/** The worker stops, and its grace is over. The task is handed back. */
export class Shutdown extends StopCause {
  override readonly name = "Shutdown";
}

/** The spec does not fit the schema. The task is tried again: a newer version of the worker may read it. */
class InvalidSpec extends Error {
  override readonly name = "InvalidSpec";
  readonly code = "invalid_spec";
  constructor(readonly issues: readonly Issue[]) {
    super(issuesText(issues));
  }
}

type Issue = { message: string; path?: readonly unknown[] | undefined };

/** How a handler ended. */
export type Outcome =
  | { outcome: "completed"; result: unknown }
  | { outcome: "retry" | "aborted"; error: TaskError; thrown?: unknown }
  | { outcome: "yield"; until?: number | Date };

/** Goes around each handler: `next` runs the rest, and gives what it returns. */
export type HandleMiddleware = (task: Task, next: () => Promise<unknown>) => unknown;

/** Runs the handler of a task, and tells how it ended. */
export async function runHandler(
  handler: HandlerFunction<any> | Handler,
  task: Task,
  middleware: readonly HandleMiddleware[] = [],
): Promise<Outcome> {
  const { run, schema } = typeof handler === "function" ? { run: handler, schema: undefined } : handler;
  const innermost = async () => {
    if (!schema) return await (run as HandlerFunction)(task);
    const checked = await schema["~standard"].validate(task.spec);
    if (checked.issues) throw new InvalidSpec(checked.issues);
    Object.defineProperty(task, "spec", { value: checked.value });
    return await (run as HandlerFunction)(task);
  };
  const chain = middleware.reduceRight<() => Promise<unknown>>((next, around) => async () => await around(task, next), innermost);
  try {
    return { outcome: "completed", result: await chain() };
  } catch (thrown) {
    return failure(thrown, task.signal);
  }
}

function failure(thrown: unknown, signal: AbortSignal): Outcome {
  if (thrown instanceof Snooze) return { outcome: "yield", until: thrown.until };
  if (thrown instanceof Abort) {
    return { outcome: "aborted", error: { code: text(thrown.code), description: text(thrown.message), args: thrown.args }, thrown };
  }
  if (signal.reason instanceof Shutdown) return { outcome: "yield" };
  return { outcome: "retry", error: describe(signal.reason instanceof TimeLimitExceeded ? signal.reason : thrown), thrown };
}

/** An error as a task keeps it. */
export function describe(thrown: unknown): TaskError {
  if (!(thrown instanceof Error)) return { code: "error", description: text(thrown), args: {} };
  const { cause } = thrown;
  const args: Record<string, unknown> = { traceback: text(thrown.stack) };
  if (thrown instanceof InvalidSpec) args.issues = thrown.issues.map(({ message, path }) => ({ message, path: path?.map(pathKey) }));
  if (cause !== undefined) args.cause = text((cause instanceof Error && cause.stack) || cause);
  const { code } = thrown as { code?: unknown };
  return { code: text(typeof code === "string" ? code : thrown.name), description: text(thrown.message), args };
}

/** Any value as a text that PostgreSQL stores; a handler may throw what cannot be printed. */
function text(value: unknown): string {
  try {
    return storable(String(value));
  } catch {
    return "unprintable";
  }
}

export function issuesText(issues: readonly Issue[]): string {
  return issues.map(({ message, path }) => (path?.length ? `${path.map(pathKey).join(".")}: ${message}` : message)).join("; ");
}

function pathKey(part: unknown): string {
  return String(isObject(part) && "key" in part ? part.key : part);
}
