"""What a caller meets, what a handler raises, and what it can be stopped with.

The names of errors end in Error. `Abort` and `Snooze` are no errors but what a handler asks for,
and a subclass of `Stopped` is a cause, as KeyboardInterrupt is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID


class Error(Exception):
    """Base of this package's errors."""


class IncompatibleError(Error):
    """The server has no scylla, or one that this version of the client does not work with."""


class DatabaseError(Error):
    """The server has refused a call, for one of the reasons that the subclasses tell.

    The text has the server's message, DETAIL and HINT. `__cause__` is the error of the driver or
    ORM. All other errors of the server, and lost connections, are raised as the driver has them:
    what repeats a transaction after a serialization failure must see that.
    """

    def __init__(
        self,
        message: str,
        *,
        sqlstate: str,
        detail: str | None = None,
        hint: str | None = None,
        constraint: str | None = None,
    ) -> None:
        extra = (f"{name}:  {text}" for name, text in (("DETAIL", detail), ("HINT", hint)) if text)
        super().__init__("\n".join([message, *extra]))
        self.message = message
        self.sqlstate = sqlstate
        self.detail = detail
        self.hint = hint
        self.constraint = constraint


class DuplicateError(DatabaseError):
    """The id or the key is taken (23505); `constraint` is `task_pkey` or `task_key`."""


class NotFoundError(DatabaseError):
    """There is no such task or queue (P0002)."""


class NotPermittedError(DatabaseError):
    """The role has no such privilege on the queue (42501)."""


class QueueFullError(DatabaseError):
    """The queue has as many ready tasks as its `max_ready` allows (53400)."""


class TaskAbortedError(Error):
    """A task whose result was asked for has failed for good. `errors` has what it failed with."""

    def __init__(self, id: UUID, errors: list[Any]) -> None:
        # that the tries are exhausted does not tell why
        causes = [error for error in errors if error.get("code") != "tries_exhausted"] or [{}]
        why = causes[-1].get("description") or causes[-1].get("code")
        super().__init__(f"task {id} was aborted" + (f": {why}" if why else ""))
        self.id = id
        self.errors = errors


class TaskCancelledError(Error):
    """A task whose result was asked for has been cancelled."""

    def __init__(self, id: UUID) -> None:
        super().__init__(f"task {id} was cancelled")
        self.id = id


class Abort(Exception):
    """Raised by a handler: the task fails for good, without another try."""

    def __init__(self, code: str, description: str = "", **args: Any) -> None:
        super().__init__(description or code)
        self.code = code
        self.description = description
        self.error_args = args


class Snooze(Exception):
    """Raised by a handler: run the task later, and do not count this try."""

    def __init__(self, delay: float | timedelta | datetime) -> None:
        super().__init__(f"snoozed: {delay}")
        self.delay = delay


class Stopped(asyncio.CancelledError):
    """The worker stops a handler; the subclass is the cause.

    No subclass of Exception: a handler that catches its own errors does not catch this one.
    """


class Cancelled(Stopped):
    """The task was cancelled or deleted. What the handler returns is dropped."""


class LeaseLost(Stopped):
    """Another worker may have the task. What the handler returns is dropped."""


class TimeLimitExceeded(Stopped):
    """The handler's own time limit is over. The try has failed."""


class Shutdown(Stopped):
    """The worker ends and its grace is over. The task is handed back; the try is not counted."""


# ---- errors of any driver ----


def _holders(error: BaseException) -> Iterator[Any]:
    """The error and those below it, of which one is the driver's."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        if (original := getattr(seen, "orig", None)) is not None:  # SQLAlchemy's
            yield original
        seen = seen.__cause__


def sqlstate(error: BaseException) -> str | None:
    """The SQLSTATE, whichever driver or ORM raised the error."""
    for holder in _holders(error):
        code = getattr(holder, "sqlstate", None) or getattr(holder, "pgcode", None)
        if code:
            return str(code)
    return None


def constraint(error: BaseException) -> str | None:
    """The constraint that a conflict names: `task_pkey` or `task_key`."""
    return _field(error, "constraint_name", "constraint_name")


def _field(error: BaseException, of_psycopg: str, of_asyncpg: str) -> str | None:
    for holder in _holders(error):
        text = getattr(getattr(holder, "diag", None), of_psycopg, None)
        text = text or getattr(holder, of_asyncpg, None)
        if text:
            return str(text)
    return None


_REFUSALS: dict[str, type[DatabaseError]] = {
    "23505": DuplicateError,
    "P0002": NotFoundError,
    "42501": NotPermittedError,
    "53400": QueueFullError,
}


def _refusal(error: BaseException) -> DatabaseError | None:
    code = sqlstate(error) or ""
    kind = _REFUSALS.get(code)
    if kind is None or isinstance(error, DatabaseError):
        return None
    message = _field(error, "message_primary", "message") or str(error)
    if kind is QueueFullError and '" is full' not in message:
        return None  # another limit of the server
    return kind(
        message,
        sqlstate=code,
        detail=_field(error, "message_detail", "detail"),
        hint=_field(error, "message_hint", "hint"),
        constraint=constraint(error),
    )


class _Refusals:
    """`with refusals:` raises a DatabaseError from the driver's error."""

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: Any, error: BaseException | None, _traceback: Any) -> None:
        if error is not None and (refusal := _refusal(error)) is not None:
            raise refusal from error


refusals = _Refusals()
