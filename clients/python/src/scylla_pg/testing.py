"""For tests of code that submits and of handlers.

`capture` records submissions and needs no server. `run_ready` runs, in this thread, what is ready
on a server. `submitted` reads what a transaction has submitted, before it is committed, too.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg

from . import drivers
from .calls import Call, Submission
from .capture import recorder
from .codec import encode
from .connect import Conninfo, new_id, parameters
from .errors import Abort, Snooze, Stopped
from .middleware import Middleware, around_handle
from .outcome import Outcome, of_error, of_value
from .queue import Queue, TaskFunction
from .run import Run
from .statements import Exchange, return_parameters
from .task import Task
from .worker import handlers


@dataclasses.dataclass(frozen=True)
class Submitted:
    """A task that was submitted."""

    id: UUID
    queue: str
    action: str
    spec: Any
    options: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Ran:
    """A task that was run: with which outcome, and what it gave or raised."""

    task: Task
    outcome: str
    result: Any = None
    error: BaseException | None = None


class Captured(list[Submitted]):
    """What was submitted inside of `capture`, in order."""

    def add(self, submission: Submission) -> list[UUID]:
        given = submission.options.get("ids") or [submission.options.get("id")] * len(
            submission.specs
        )
        ids = [UUID(str(id)) if id else new_id() for id in given]
        for id, spec in zip(ids, submission.specs, strict=True):
            options = dict(submission.options)
            # as the server would keep it, and refused if it cannot be kept
            kept = json.loads(encode(spec))
            self.append(Submitted(id, submission.queue, submission.action, kept, options))
        return ids

    def run(self, *queues: Queue, middleware: Sequence[Middleware] = ()) -> list[Ran]:
        """Runs what was submitted, and what these tasks submit, once each. Errors are raised."""
        known = handlers(queues)
        ran: list[Ran] = []
        while self:
            one = self.pop(0)
            meta = one.options.get("meta")
            task = Task(
                str(one.id),
                one.queue,
                one.action,
                encode(one.spec),
                one.options.get("priority", 0),
                one.options.get("key"),
                group_key=one.options.get("group_key"),
                max_tries=one.options.get("max_tries", 0),
                meta=encode(meta) if meta else None,
            )
            ran.append(_run(task, known[one.queue, one.action], middleware)[0])
            if (error := ran[-1].error) is not None:
                raise error
        return ran


@contextmanager
def capture() -> Generator[Captured, None, None]:
    """Records the submissions of this thread or asyncio task, and sends none of them."""
    captured = Captured()
    token = recorder.set(captured)
    try:
        yield captured
    finally:
        recorder.reset(token)


def submitted(conn: Any, what: Queue | TaskFunction[Any, Any] | str) -> list[Submitted]:
    """What is in a queue, or of a function, as the transaction of `conn` sees it, oldest first."""
    queue, action = _named(what)
    rows = drivers.run(
        conn,
        Call(
            "select coalesce(jsonb_agg(to_jsonb(t) order by t.created, t.id), '[]')::text "
            "from scylla.tasks as t where queue = %s::text and action = coalesce(%s::text, action)",
            (queue, action),
            lambda row: json.loads(row[0]),
        ),
    )
    return [
        Submitted(UUID(row["id"]), row["queue"], row["action"], row["spec"], row) for row in rows
    ]


def assert_submitted(
    source: Any, what: Queue | TaskFunction[Any, Any] | str, **spec: Any
) -> Submitted:
    """Fails unless a task was submitted whose spec has these members. Returns the first one.

    `source` is what `capture` gives, or a connection, in whose transaction is looked.
    """
    queue, action = _named(what)
    found = source if isinstance(source, Captured) else submitted(source, what)
    wanted = json.loads(encode(spec))
    near: list[Any] = []
    for one in found:
        if one.queue != queue or (action is not None and one.action != action):
            continue
        members: Any = one.spec
        if isinstance(members, dict) and {**members, **wanted} == members:
            return one
        near.append(one.spec)
    raise AssertionError(f"no task {what!r} was submitted with {wanted!r}, but these: {near!r}")


def run_ready(
    conninfo: Conninfo,
    *queues: Queue,
    most: int = 1000,
    raise_errors: bool = True,
    middleware: Sequence[Middleware] = (),
) -> list[Ran]:
    """Runs what is ready, one after the other in this thread, until nothing is.

    Tasks have to be committed. With `raise_errors`, the error of a handler is raised here once its
    task has been returned.
    """
    known = handlers(queues)
    names = [queue.name for queue in queues]
    actions = sorted({action for _, action in known})
    exchange = Exchange("scylla_pg.testing", names, actions, "1 hour")
    ran: list[Ran] = []
    with psycopg.connect(
        autocommit=True, **parameters(conninfo, "scylla-pg python testing")
    ) as conn:
        while len(ran) < most:
            row = conn.execute(exchange.owning.encode(), exchange.own(1)).fetchone()
            if row is None:
                break
            run = Run(row, known[row[3], row[4]], 0.0)
            one, outcome = _run(run.task, run.function, middleware)
            params = return_parameters([run.task.raw_id()], [run.token], [outcome])
            conn.execute(exchange.returning.encode(), params)
            ran.append(one)
            if raise_errors and one.error is not None:
                raise one.error
    return ran


def _run(
    task: Task, function: TaskFunction[Any, Any], middleware: Iterable[Middleware]
) -> tuple[Ran, Outcome]:
    try:
        args, kwargs = function.bind(task)
        with around_handle(middleware, task):
            value = function.function(*args, **kwargs)
            if function.is_async:
                value = _in_a_loop(value)
            outcome = of_value(value)
        return Ran(task, outcome.kind, value), outcome
    except (Exception, Stopped) as error:
        outcome = of_error(error, None, 0.0)
        assert outcome is not None
        told = None if isinstance(error, (Abort, Snooze)) else error
        return Ran(task, outcome.kind, error=told), outcome


def _in_a_loop(coroutine: Any) -> Any:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    coroutine.close()
    raise RuntimeError("an async handler cannot run here, inside of a running event loop")


def _named(what: Queue | TaskFunction[Any, Any] | str) -> tuple[str, str | None]:
    if isinstance(what, TaskFunction):
        return what.queue.name, what.action
    return (what.name if isinstance(what, Queue) else what), None


__all__ = ["Captured", "Ran", "Submitted", "assert_submitted", "capture", "run_ready", "submitted"]
