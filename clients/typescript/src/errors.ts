/** An error of the server. `code` is its SQLSTATE, whichever driver reported it. */
export class ScyllaError extends Error {
  readonly code: string;
  readonly detail: string | undefined;
  readonly hint: string | undefined;
  readonly constraint: string | undefined;

  constructor(message: string, fields: ServerFields, cause?: unknown) {
    super(message, { cause });
    this.name = new.target.name;
    this.code = fields.code;
    this.detail = fields.detail;
    this.hint = fields.hint;
    this.constraint = fields.constraint;
  }
}

/** 23505: the id or the key is taken. */
export class DuplicateError extends ScyllaError {}
/** P0002: no such task, queue or schedule. */
export class NotFoundError extends ScyllaError {}
/** 42501: the role has no such privilege on the queue. */
export class NotPermittedError extends ScyllaError {}
/** 53400 for a queue: it has as many ready tasks as its `max_ready` allows. */
export class QueueFullError extends ScyllaError {}

/** The server has no scylla, or one that this version of the client cannot work with. */
export class IncompatibleError extends Error {
  override readonly name = "IncompatibleError";
}

/** The task of `Client.result` was aborted or cancelled. */
export class TaskFailedError extends Error {
  override readonly name = "TaskFailedError";
  constructor(
    readonly id: string,
    readonly status: "aborted" | "cancelled",
    readonly errors: readonly TaskError[],
  ) {
    const last = errors.findLast((error) => error.code !== "tries_exhausted");
    super(`task ${id} was ${status}${last ? `: ${last.description}` : ""}`);
  }
}

/** An entry of a task's `errors`. */
export interface TaskError {
  code: string;
  description: string;
  args: Record<string, unknown>;
}

interface ServerFields {
  code: string;
  detail?: string | undefined;
  hint?: string | undefined;
  constraint?: string | undefined;
}

const SQLSTATE = /^[0-9A-Z]{5}$/;

/** The SQLSTATE of an error, also where a driver or ORM wrapped it; undefined: none. */
export function sqlState(error: unknown): string | undefined {
  return serverError(error)?.fields.code;
}

function serverError(error: unknown): { message: string; fields: ServerFields } | undefined {
  for (let at: unknown = error, depth = 0; isObject(at) && depth < 8; depth++) {
    // Prisma: the error's `meta` has the code, or its driver adapter's error does
    const inner = isObject(at.meta) ? at.meta : undefined;
    const adapter = inner && isObject(inner.driverAdapterError) ? inner.driverAdapterError.cause : undefined;
    for (const from of [adapter, inner, at]) {
      if (!isObject(from)) continue;
      // a system error such as EPIPE looks like an SQLSTATE, but has a number
      const code = from.originalCode ?? from.code;
      if (typeof code !== "string" || !SQLSTATE.test(code) || from.errno !== undefined || /^P2\d\d\d$/.test(code)) continue;
      const message = from.originalMessage ?? from.message;
      return {
        message: typeof message === "string" ? message : String(error),
        fields: {
          code,
          detail: text(from.detail),
          hint: text(from.hint),
          constraint: text(from.constraint ?? from.constraint_name),
        },
      };
    }
    at = at.cause;
  }
  return undefined;
}

/** What a caller of Client sees: ScyllaError for an error of the server, else the driver's own. */
export function translate(error: unknown): unknown {
  const found = serverError(error);
  if (!found) return error;
  return new (kindOf(found.fields.code, found.message))(found.message, found.fields, error);
}

function kindOf(code: string, message: string): typeof ScyllaError {
  switch (code) {
    case "23505": return DuplicateError;
    case "P0002": return NotFoundError;
    case "42501": return NotPermittedError;
    // other limits of the server have this code, too; an ORM may put its own words before the server's
    case "53400": return message.includes('" is full') ? QueueFullError : ScyllaError;
    default: return ScyllaError;
  }
}

/** The connection is gone or useless, and another one may work. */
export function isConnectionError(error: unknown): boolean {
  const code = sqlState(error);
  return code === undefined || code.startsWith("08") || code.startsWith("57P") || code === "25006";
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
