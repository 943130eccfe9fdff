// Optional: spans and metrics through the application's own @opentelemetry/api, by its conventions for messaging.
import type * as Api from "@opentelemetry/api";
import type { Submission, SubmitMiddleware } from "./client.js";
import { Snooze, type HandleMiddleware, type Task } from "./handler.js";

export interface Telemetry {
  /** For `new Client(db, { middleware: [...] })`: a span `send <queue>`, and its `traceparent` in `meta`. */
  submit: SubmitMiddleware;
  /** For `new Worker(connector, { middleware: [...] })`: a span `process <queue>`. The first try continues the trace, a retry links to it. */
  handle: HandleMiddleware;
}

/** @param api the module `@opentelemetry/api` */
export function openTelemetry(api: typeof Api): Telemetry {
  const tracer = api.trace.getTracer("scylla-pg");
  const meter = api.metrics.getMeter("scylla-pg");
  const sent = meter.createCounter("messaging.client.sent.messages", { unit: "{message}" });
  const consumed = meter.createCounter("messaging.client.consumed.messages", { unit: "{message}" });
  const sending = meter.createHistogram("messaging.client.operation.duration", { unit: "s" });
  const processing = meter.createHistogram("messaging.process.duration", { unit: "s" });

  const attributes = (queue: string, operation: string) => ({
    "messaging.system": "scylla",
    "messaging.destination.name": queue,
    "messaging.operation.name": operation,
    "messaging.operation.type": operation,
  });

  async function record<Value>(
    span: Api.Span,
    shared: Record<string, string>,
    counter: Api.Counter,
    histogram: Api.Histogram,
    run: () => Promise<Value>,
    count: (value: Value | undefined) => number,
  ): Promise<Value> {
    const since = performance.now();
    const end = (value: Value | undefined, error: Record<string, string>) => {
      counter.add(count(value), { ...shared, ...error });
      histogram.record((performance.now() - since) / 1_000, { ...shared, ...error });
      span.end();
    };
    try {
      const value = await run();
      end(value, {});
      return value;
    } catch (thrown) {
      if (thrown instanceof Snooze) {
        end(undefined, {}); // later is no failure
        throw thrown;
      }
      const type = thrown instanceof Error ? ((thrown as { code?: unknown }).code ?? thrown.name) : "_OTHER";
      const error = { "error.type": String(type) };
      span.setAttributes(error);
      if (thrown instanceof Error) span.recordException(thrown);
      span.setStatus({ code: api.SpanStatusCode.ERROR, message: String(thrown) });
      end(undefined, error);
      throw thrown;
    }
  }

  return {
    async submit(submission, next) {
      const shared = attributes(submission.queue, "send");
      return await tracer.startActiveSpan(`send ${submission.queue}`, { kind: api.SpanKind.PRODUCER, attributes: shared }, (span) =>
        record(span, shared, sent, sending, async () => {
          const carrier: Record<string, string> = {};
          api.propagation.inject(api.context.active(), carrier);
          const traced: Submission =
            Object.keys(carrier).length > 0 ? { ...submission, meta: { ...submission.meta, ...carrier } } : submission;
          const id = await next(traced);
          if (typeof id === "string") span.setAttribute("messaging.message.id", id);
          else if (Array.isArray(id)) span.setAttribute("messaging.batch.message_count", id.length);
          return id;
        }, (id) => (Array.isArray(id) ? id.length : 1)),
      );
    },

    async handle(task: Task, next) {
      const shared = attributes(task.queue, "process");
      const origin = api.propagation.extract(api.ROOT_CONTEXT, task.meta ?? {});
      const sender = api.trace.getSpanContext(origin);
      const first = task.tries <= 1;
      return await tracer.startActiveSpan(
        `process ${task.queue}`,
        {
          kind: api.SpanKind.CONSUMER,
          attributes: { ...shared, "messaging.message.id": task.id, "scylla.action": task.action, "scylla.tries": task.tries },
          root: !first,
          ...(sender && !first ? { links: [{ context: sender }] } : {}),
        },
        first ? origin : api.context.active(),
        (span) => record(span, shared, consumed, processing, next, () => 1),
      );
    },
  };
}
