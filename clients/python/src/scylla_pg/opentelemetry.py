"""Spans and metrics of OpenTelemetry, by its conventions for messaging.

    tracing = Tracing()
    client = Client(dsn, middleware=[tracing])
    worker = Worker(dsn, queue, middleware=[tracing])

The first try of a task continues the trace of its submission. A retry begins a trace of its own,
with a link to that one.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from opentelemetry import metrics, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from .calls import Submission
from .errors import Abort, Snooze, Stopped
from .middleware import Middleware
from .task import Task
from .version import VERSION

_NAME = "scylla_pg"


class Tracing(Middleware):
    """Middleware for clients and workers."""

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        self._tracer = trace.get_tracer(_NAME, VERSION, tracer_provider)
        meter = metrics.get_meter(_NAME, VERSION, meter_provider)
        self._sent = meter.create_counter("messaging.client.sent.messages", "{message}")
        self._consumed = meter.create_counter("messaging.client.consumed.messages", "{message}")
        self._operation = meter.create_histogram("messaging.client.operation.duration", "s")
        self._process = meter.create_histogram("messaging.process.duration", "s")

    @contextmanager
    def submit(self, submission: Submission) -> Generator[None, None, None]:
        count = len(submission.specs)
        known = _attributes("send", submission.queue)
        more: dict[str, Any] = {"scylla.action": submission.action}
        if submission.many:
            more["messaging.batch.message_count"] = count
        span = self._tracer.start_span(
            f"send {submission.queue}", kind=SpanKind.PRODUCER, attributes={**known, **more}
        )
        begun = time.monotonic()
        with trace.use_span(span, end_on_exit=True):
            meta = dict(submission.options.get("meta") or {})
            propagate.inject(meta)
            if meta:
                submission.options["meta"] = meta
            error: BaseException | None = None
            try:
                yield
            except BaseException as raised:
                error = raised
                raise
            finally:
                if not submission.many and (id := submission.options.get("id")):
                    span.set_attribute("messaging.message.id", str(id))
                if error is not None:
                    known["error.type"] = type(error).__name__
                    span.set_attribute("error.type", known["error.type"])
                self._sent.add(count, known)
                self._operation.record(time.monotonic() - begun, known)

    @contextmanager
    def handle(self, task: Task) -> Generator[None, None, None]:
        known = _attributes("process", task.queue)
        carrier = {name: value for name, value in task.meta.items() if isinstance(value, str)}
        sender = propagate.extract(carrier, Context())
        link = trace.get_current_span(sender).get_span_context()
        first = task.tries <= 1
        span = self._tracer.start_span(
            f"process {task.queue}",
            context=sender if first else Context(),
            kind=SpanKind.CONSUMER,
            links=[] if first or not link.is_valid else [Link(link)],
            attributes={
                **known,
                "messaging.message.id": str(task.id),
                "scylla.action": task.action,
                "scylla.try": task.tries,
            },
        )
        begun = time.monotonic()
        with trace.use_span(
            span, end_on_exit=True, record_exception=False, set_status_on_exception=False
        ):
            try:
                yield
            except Snooze:
                raise
            except BaseException as error:
                known["error.type"] = error.code if isinstance(error, Abort) else _name(error)
                span.set_attribute("error.type", known["error.type"])
                span.set_status(Status(StatusCode.ERROR, str(error)))
                if not isinstance(error, (Abort, Stopped)):
                    span.record_exception(error)
                raise
            finally:
                self._consumed.add(1, known)
                self._process.record(time.monotonic() - begun, known)


def _attributes(operation: str, queue: str) -> dict[str, Any]:
    return {
        "messaging.system": "scylla",
        "messaging.destination.name": queue,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
    }


def _name(error: BaseException) -> str:
    kind = type(error)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
