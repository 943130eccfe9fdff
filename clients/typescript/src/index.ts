export { Client } from "./client.js";
export type {
  ClientOptions, Entry, Settled, Submission, SubmitManyOptions, SubmitMiddleware, SubmitOptions, Submitted, TaskEvent, WaitOptions,
} from "./client.js";
export {
  DuplicateError, IncompatibleError, NotFoundError, NotPermittedError, QueueFullError, ScyllaError, sqlState, TaskFailedError,
} from "./errors.js";
export type { TaskError } from "./errors.js";
export { Abort, Cancelled, defineTask, handle, LeaseLost, Shutdown, Snooze, StopCause, TimeLimitExceeded } from "./handler.js";
export type { Handler, HandlerFunction, HandlerOptions, Handlers, HandleMiddleware, Task, TaskDefinition } from "./handler.js";
export { parseJson, toJson } from "./json.js";
export type { Connection, Connector } from "./link.js";
export type { Interval, Queryable, Row } from "./sql.js";
export type { StandardSchema } from "./standard-schema.js";
export { Worker } from "./worker.js";
export type { Logger, WorkerOptions, WorkerStats } from "./worker.js";
export { VERSION } from "./version.js";
