import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import * as api from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { Abort, Client, Snooze } from "scylla-pg";
import { openTelemetry, type Telemetry } from "scylla-pg/otel";
import { database, until, type Database } from "./lib/server.js";

const spans = new InMemorySpanExporter();
const metrics = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
const reader = new PeriodicExportingMetricReader({ exporter: metrics, exportIntervalMillis: 3_600_000 });
let telemetry: Telemetry;
let db: Database;
before(async () => {
  api.context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  api.propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  api.trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] }));
  api.metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }));
  telemetry = openTelemetry(api);
  db = await database();
});
after(async () => {
  await reader.shutdown();
  await db[Symbol.asyncDispose]();
});
beforeEach(() => spans.reset());

test("the first try continues the trace, a retry begins one and links to it", async () => {
  const client = new Client(db.pool, { middleware: [telemetry.submit] });
  let tries = 0;
  await using worker = db.worker({ queues: "traced", middleware: [telemetry.handle], handlers: { "": () => {
    assert(api.trace.getActiveSpan());
    if (++tries === 1) throw Object.assign(new Error("once"), { code: "E_ONCE" });
  } } });
  await worker.start();
  const id = await client.submit("traced", {}, { retryInterval: 0, meta: { mine: 1 } });
  await until("three spans", () => spans.getFinishedSpans().length === 3);
  const [send, first, second] = spans.getFinishedSpans();
  assert.deepEqual([send!.name, first!.name, second!.name], ["send traced", "process traced", "process traced"]);
  assert.deepEqual(send!.attributes, {
    "messaging.system": "scylla", "messaging.destination.name": "traced", "messaging.operation.name": "send",
    "messaging.operation.type": "send", "messaging.message.id": id,
  });
  const traceId = send!.spanContext().traceId;
  assert.equal(first!.spanContext().traceId, traceId);
  assert.equal(first!.parentSpanContext?.spanId, send!.spanContext().spanId);
  assert.equal(first!.attributes["messaging.message.id"], id);
  assert.equal(first!.attributes["error.type"], "E_ONCE");
  assert.equal(first!.status.code, api.SpanStatusCode.ERROR);
  assert.notEqual(second!.spanContext().traceId, traceId);
  assert.equal(second!.parentSpanContext, undefined);
  assert.deepEqual(second!.links.map(({ context }) => [context.traceId, context.spanId]), [[traceId, send!.spanContext().spanId]]);
  const meta = await db.value("select meta from scylla.tasks where id = $1", [id]);
  assert.equal(meta.mine, 1);
  assert.match(meta.traceparent, new RegExp(`^00-${traceId}-`));
});

test("messages are counted, those of a batch each; Snooze is no error", async () => {
  const client = new Client(db.pool, { middleware: [telemetry.submit] });
  await client.submitMany("counted", [1, 2, 3], { action: "ok" });
  await client.submit("counted", {}, { action: "later" });
  await client.submit("counted", {}, { action: "never" });
  await using worker = db.worker({ queues: "counted", middleware: [telemetry.handle], handlers: {
    ok: () => {}, later: () => { throw new Snooze(3_600_000); }, never: () => { throw new Abort("never"); },
  } });
  await worker.start();
  await until("all are processed", () => spans.getFinishedSpans().filter(({ name }) => name === "process counted").length === 5);
  await reader.forceFlush();
  const points = metrics.getMetrics().at(-1)!.scopeMetrics.flatMap((scope) => scope.metrics);
  const sum = (name: string, error?: string) => points.find(({ descriptor }) => descriptor.name === name)!.dataPoints
    .filter(({ attributes }) => attributes["messaging.destination.name"] === "counted" && attributes["error.type"] === error)
    .reduce((total, { value }) => total + (typeof value === "number" ? value : value.count), 0);
  assert.equal(sum("messaging.client.sent.messages"), 5);
  assert.equal(sum("messaging.client.operation.duration"), 3);
  assert.equal(sum("messaging.client.consumed.messages"), 4);
  assert.equal(sum("messaging.client.consumed.messages", "never"), 1);
  assert.equal(sum("messaging.process.duration"), 4);
});

test("a submission that fails is an error of its span", async () => {
  const client = new Client(db.pool, { middleware: [telemetry.submit] });
  await assert.rejects(client.submit("traced", null));
  const [span] = spans.getFinishedSpans();
  assert.equal(span!.attributes["error.type"], "22023");
});
