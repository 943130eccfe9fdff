"""Middleware, and OpenTelemetry as one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from conftest import Server, serving, until
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from scylla_pg import (
    Abort,
    AsyncClient,
    Client,
    Middleware,
    Queue,
    Snooze,
    Submission,
    Task,
    Worker,
)
from scylla_pg.opentelemetry import Tracing


class Notes(Middleware):
    def __init__(self) -> None:
        self.notes: list[Any] = []

    @contextmanager
    def submit(self, submission: Submission) -> Iterator[None]:
        submission.options["meta"] = {"by": "notes"}
        self.notes.append(("submit", submission.queue, len(submission.specs)))
        yield
        self.notes.append("submitted")

    @contextmanager
    def handle(self, task: Task) -> Iterator[None]:
        self.notes.append(("begin", task.meta, threading.get_ident()))
        try:
            yield
        except Exception as error:
            self.notes.append(type(error).__name__)
            raise
        else:
            self.notes.append("end")


def test_around_submit_of_each_kind(server: Server, queue_name: str) -> None:
    notes = Notes()
    client = Client(server.dsn, middleware=[notes])
    queue = Queue(queue_name, client=client)

    @queue.task
    def f() -> None: ...

    ids = [client.submit(queue_name), *client.submit_many(queue_name, [1, 2]), f.submit()]
    with server.connect() as conn:
        ids.append(f.submit(conn=conn))

    async def run() -> None:
        async with AsyncClient(server.dsn, middleware=[notes]) as other:
            ids.append(await other.submit(queue_name))

    asyncio.run(run())
    metas = server.execute("select meta from scylla.tasks where queue = %s", queue_name)
    assert [row["meta"] for row in metas] == [{"by": "notes"}] * 6
    assert notes.notes.count("submitted") == 5
    assert notes.notes[2] == ("submit", queue_name, 2)


def test_around_handlers(server: Server, queue: Queue, client: Client) -> None:
    notes, where = Notes(), []

    @queue.task(max_tries=1)
    def in_a_thread() -> None:
        where.append(threading.get_ident())
        raise LookupError

    @queue.task
    async def on_the_loop() -> None:
        where.append(threading.get_ident())

    worker = Worker(server.dsn, queue, concurrency=1, middleware=[notes])
    with serving(worker):
        in_a_thread.submit()
        until(lambda: worker.stats["aborted"])
        on_the_loop.submit()
        until(lambda: worker.stats["completed"])
    assert notes.notes == [
        ("begin", {}, where[0]),
        "LookupError",
        ("begin", {}, where[1]),
        "end",
    ]
    assert where[0] != where[1]


class Telemetry:
    def __init__(self) -> None:
        self.spans = InMemorySpanExporter()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.tracer = tracers.get_tracer("test")
        self.reader = InMemoryMetricReader()
        self.tracing = Tracing(tracers, MeterProvider([self.reader]))

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans.get_finished_spans() if span.name == name]

    def metric(self, name: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


@pytest.mark.parametrize("kind", ["async", "thread"])
def test_traces(server: Server, queue_name: str, kind: str) -> None:
    telemetry = Telemetry()
    client = Client(server.dsn, middleware=[telemetry.tracing])
    queue = Queue(queue_name, client=client)

    def work(task: Task) -> None:
        with telemetry.tracer.start_as_current_span("inner"):
            if task.tries < 2:
                raise LookupError("first")

    if kind == "thread":
        queue.task(action="work", retry_interval=0.01)(work)
    else:

        @queue.task(action="work", retry_interval=0.01)
        async def awork(task: Task) -> None:
            work(task)

    with telemetry.tracer.start_as_current_span("request") as request:
        id = client.submit(queue_name, action="work", retry_interval=0.01, meta={"mine": 1})
    assert client.task(id)["meta"]["mine"] == 1 if "meta" in client.task(id) else True
    worker = Worker(server.dsn, queue, middleware=[telemetry.tracing])
    with serving(worker):
        until(lambda: worker.stats["completed"])
    (send,) = telemetry.named(f"send {queue_name}")
    first, second = telemetry.named(f"process {queue_name}")
    inner = telemetry.named("inner")
    trace_id = request.get_span_context().trace_id
    assert send.context.trace_id == trace_id
    assert (first.context.trace_id, first.parent.span_id) == (trace_id, send.context.span_id)
    assert second.context.trace_id != trace_id and second.parent is None
    assert second.links[0].context.span_id == send.context.span_id
    assert [span.parent.span_id for span in inner] == [
        first.context.span_id,
        second.context.span_id,
    ]
    assert first.attributes["error.type"] == "LookupError"
    assert first.status.status_code is StatusCode.ERROR
    assert "error.type" not in second.attributes
    for span in (send, first, second):
        assert span.attributes["messaging.system"] == "scylla"
        assert span.attributes["messaging.destination.name"] == queue_name
        assert span.attributes["messaging.message.id"] == str(id)
    assert send.attributes["messaging.operation.type"] == "send"
    assert first.attributes["messaging.operation.type"] == "process"


def test_metrics(server: Server, queue_name: str) -> None:
    telemetry = Telemetry()
    client = Client(server.dsn, middleware=[telemetry.tracing])
    queue = Queue(queue_name, client=client)
    snoozed: list[int] = []

    @queue.task
    async def work(n: int) -> None:
        if n == 1:
            raise Abort("no_such_thing")
        if n == 2 and not snoozed:
            snoozed.append(n)
            raise Snooze(0)

    client.submit_many(queue_name, [{"n": n} for n in range(5)], action="work")
    worker = Worker(server.dsn, queue, middleware=[telemetry.tracing])
    with serving(worker):
        until(lambda: worker.stats["completed"] == 4 and worker.stats["aborted"] == 1)
    (sent,) = telemetry.metric("messaging.client.sent.messages")
    assert (sent.value, sent.attributes["messaging.destination.name"]) == (5, queue_name)
    consumed = {
        point.attributes.get("error.type"): point.value
        for point in telemetry.metric("messaging.client.consumed.messages")
    }
    assert consumed == {None: 5, "no_such_thing": 1}
    assert sum(point.count for point in telemetry.metric("messaging.process.duration")) == 6
    assert sum(p.count for p in telemetry.metric("messaging.client.operation.duration")) == 1
