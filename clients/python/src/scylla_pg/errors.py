"""What a handler raises, what it can be stopped with, and what a caller meets."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID


class Error(Exception):
    """Base of this package's errors. Errors of the database stay those of the driver."""


class Incompatible(Error):
    """The server has no scylla, or one that this version of the client does not work with."""


class TaskAborted(Error):
    """A task whose result was asked for has failed for good. `errors` has what it failed with."""

    def __init__(self, id: UUID, errors: list[Any]) -> None:
        last: dict[str, Any] = errors[-1] if errors else {}
        super().__init__(f"task {id} was aborted: {last.get('description') or last.get('code')}")
        self.id = id
        self.errors = errors


class TaskCancelled(Error):
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


class Timeout(Stopped):
    """The handler's own time limit is over. The try has failed."""


class Shutdown(Stopped):
    """The worker ends and its grace is over. The task is handed back; the try is not counted."""
