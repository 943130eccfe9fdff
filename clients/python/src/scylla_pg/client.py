"""The client. Made from `async_client.py` by `tools/make_sync.py`: change that file."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import psycopg

from . import calls
from .calls import (
    Call,
    Interval,
    Submission,
    SubmitManyOptions,
    SubmitOptions,
    SubmittedTask,
)
from .capture import captured
from .connect import Conninfo, is_lost, is_readable, is_temporary, new_id, parameters, pause
from .drivers import run
from .errors import TaskAbortedError, TaskCancelledError, constraint, refusals
from .middleware import Middleware, around_submit

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

T = TypeVar("T")
BATCH = 10_000
"""How many tasks of submit_many go in one statement."""


class Client:
    """Submits tasks, waits for results, cancels, and asks why.

    Connections are made when they are needed. With `conn`, a call runs on that connection instead,
    in the transaction that is open there: of psycopg, SQLAlchemy or Django, or a session.

    While the server cannot be reached, calls are repeated for `patience` seconds. A submission
    whose answer was lost is not doubled.
    """

    def __init__(
        self,
        conninfo: Conninfo = "",
        *,
        middleware: Sequence[Middleware] = (),
        patience: float = 10.0,
        application_name: str = "scylla-pg python",
    ) -> None:
        self.middleware = tuple(middleware)
        self._conninfo = conninfo
        self._patience = patience
        self._application_name = application_name
        self._free: list[psycopg.Connection[Any]] = []
        # a client that never reached a server is not set up well, and says so at once
        self._reached = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections. A later call makes new ones."""
        while (connection := self._idle()) is not None:
            connection.close()

    # ---- submitting ----

    def submit(
        self, queue: str, spec: Any = None, *, conn: Any = None, **options: Unpack[SubmitOptions]
    ) -> UUID:
        """Submits a task and returns its id. Without `conn` it is committed at once."""
        submission = Submission(queue, [{} if spec is None else spec], {**options})
        return self.send(submission, conn)

    def send(self, submission: Submission, conn: Any = None) -> UUID:
        """Submits what has been put together already, through the middleware."""
        with around_submit(self.middleware, submission):
            if (recorder := captured()) is not None:
                return recorder.add(submission)[0]
            if conn is None and submission.options.get("id") is None:
                submission.options["id"] = new_id()
            return self._run(conn, calls.submit(submission))[0]

    def submit_many(
        self,
        queue: str,
        specs: Iterable[Any],
        *,
        conn: Any = None,
        **options: Unpack[SubmitManyOptions],
    ) -> list[UUID]:
        """Submits a task for each spec, all in one transaction. Returns the ids in order."""
        submission = Submission(queue, list(specs), {**options}, many=True)
        with around_submit(self.middleware, submission):
            if (recorder := captured()) is not None:
                return recorder.add(submission)
            if conn is None and submission.options.get("ids") is None:
                submission.options["ids"] = [new_id() for _ in submission.specs]
            batches = [calls.submit_many(batch) for batch in _batches(submission)]
            return [id for ids in self._run(conn, *batches) for id in ids]

    def submit_tasks(
        self, tasks: Iterable[Mapping[str, Any]], *, atomic: bool = True, conn: Any = None
    ) -> list[SubmittedTask]:
        """Submits tasks of any kind; each is a mapping of submit's arguments, `queue` included."""
        return self._run(conn, calls.submit_tasks(tasks, atomic))[0]

    # ---- results ----

    def wait(self, id: UUID | str, timeout: Interval = 60.0) -> str | None:
        """Waits until a task with `post_result` has settled. Returns its status; None: time-out."""
        return self._run(None, calls.wait(id, timeout))[0][0]

    def result(self, id: UUID | str, timeout: Interval = 60.0) -> Any:
        """The result of a task with `post_result`, once it is there.

        TaskAbortedError or TaskCancelledError: it has none. TimeoutError: it has not settled.
        """
        status, result = self._run(None, calls.wait(id, timeout))[0]
        if status == "aborted":
            raise TaskAbortedError(UUID(str(id)), (self.task(id))["errors"])
        if status == "cancelled":
            raise TaskCancelledError(UUID(str(id)))
        if status is None:
            raise TimeoutError(f"task {id} has not settled")
        return result

    def task(self, id: UUID | str, *, conn: Any = None) -> dict[str, Any]:
        """All that is known of a task."""
        return self._run(conn, calls.task(id))[0]

    def why(self, id: UUID | str, *, conn: Any = None) -> str:
        """A sentence that says why a task does not run."""
        return self._run(conn, calls.why(id))[0]

    def task_id(self, queue: str, key: str, *, conn: Any = None) -> UUID | None:
        """The unfinished task that has this key."""
        return self._run(conn, calls.task_id(queue, key))[0]

    def about(self, *, conn: Any = None) -> dict[str, Any]:
        """Version, protocol and features of the server."""
        return self._run(conn, calls.about())[0]

    # ---- changing ----

    def cancel(self, id: UUID | str, *, conn: Any = None) -> bool:
        """Cancels a task, also a running one. False: it had settled already."""
        return self._run(conn, calls.cancel(id))[0]

    def cancel_many(self, ids: Iterable[UUID | str], *, conn: Any = None) -> list[bool | None]:
        """Cancels tasks, in order as cancel; None: no such task."""
        return self._run(conn, calls.cancel_many(ids))[0]

    def cancel_group(self, queue: str, group_key: str, *, conn: Any = None) -> int:
        """Cancels the unfinished tasks of a group. Returns how many."""
        return self._run(conn, calls.cancel_group(queue, group_key))[0]

    def delay(self, id: UUID | str, until: datetime, *, conn: Any = None) -> bool:
        """Postpones a task. False: it runs or has settled."""
        return self._run(conn, calls.delay(id, until))[0]

    def delete(self, ids: Iterable[UUID | str], *, conn: Any = None) -> int:
        """Deletes tasks and the dependents left without a predecessor. Returns how many."""
        return self._run(conn, calls.delete(ids))[0]

    def resubmit(self, ids: Iterable[UUID | str], *, conn: Any = None) -> list[UUID | None]:
        """Submits aborted or cancelled tasks again, as new ones."""
        return self._run(conn, calls.resubmit(ids))[0]

    def drain_worker(self, worker: str, *, conn: Any = None) -> bool:
        """Asks a worker to stop. False: there is no such worker."""
        return self._run(conn, calls.drain_worker(worker))[0]

    # ---- running ----

    def _run(self, conn: Any, *batch: Call[T]) -> list[T]:
        with refusals:
            if conn is not None:
                return [run(conn, call) for call in batch]
            return self._run_here(batch)

    def _run_here(self, batch: Sequence[Call[T]]) -> list[T]:
        """On a connection of its own."""
        attempt, until, doubtful = 0, time.monotonic() + self._patience, False
        while True:
            connection = None
            try:
                connection = self._connection()
                answers = _run_all(connection, batch)
                self._free.append(connection)
                return answers
            except (psycopg.Error, OSError) as error:
                lost = is_lost(error, connection)
                if connection is not None and not lost:
                    self._free.append(connection)
                    if doubtful and (answers := _answered_before(batch, error)) is not None:
                        return answers
                    repeatable = is_temporary(error)
                else:
                    if connection is not None:
                        connection.close()
                    self.close()
                    doubtful = doubtful or connection is not None
                    repeatable = self._reached and (
                        connection is None or all(call.repeat for call in batch)
                    )
                delay = pause(attempt)
                if not repeatable or time.monotonic() + delay > until:
                    raise
                attempt += 1
                time.sleep(delay)

    def _idle(self) -> psycopg.Connection[Any] | None:
        try:
            return self._free.pop()
        except IndexError:
            return None

    def _connection(self) -> psycopg.Connection[Any]:
        while (connection := self._idle()) is not None:
            if not connection.closed and not is_readable(connection):
                return connection
            connection.close()
        known = parameters(self._conninfo, self._application_name)
        # prepared statements are not for poolers, and these calls are not repeated by the thousand
        connection = psycopg.Connection.connect(autocommit=True, prepare_threshold=None, **known)
        self._reached = True
        return connection


def _run_all(connection: psycopg.Connection[Any], batch: Sequence[Call[T]]) -> list[T]:
    if len(batch) == 1:
        return [run(connection, batch[0])]
    with connection.transaction():
        return [run(connection, call) for call in batch]


def _answered_before(batch: Sequence[Call[T]], error: BaseException) -> list[T] | None:
    """The answers that were lost, when the refusal shows that the calls had worked."""
    if constraint(error) != "task_pkey":
        return None
    known = [call.again for call in batch]
    return None if None in known else [again() for again in known if again]


def _batches(submission: Submission) -> Iterable[Submission]:
    """Pieces of a submission that a statement takes."""
    lists = ("ids", "keys", "group_keys")
    for name in lists:
        given = submission.options.get(name)
        if given is not None and len(given) != len(submission.specs):
            raise ValueError(f"{len(given)} {name} for {len(submission.specs)} specs")
    specs, start = iter(submission.specs), 0
    while (piece := list(islice(specs, BATCH))) or start == 0:
        options = dict(submission.options)
        for name in lists:
            if options.get(name) is not None:
                options[name] = options[name][start : start + BATCH]
        start += BATCH
        yield Submission(submission.queue, piece, options, many=True)
