"""A lease, and the handler that runs under it."""

from __future__ import annotations

import asyncio
import random
import time
import types
from collections.abc import Coroutine, Generator
from typing import Any

from .errors import Cancelled, LeaseLost, Stopped
from .link import Row
from .outcome import Outcome
from .queue import TaskFunction
from .task import Task
from .threads import Job

FOREVER = float("inf")

if hasattr(time, "CLOCK_BOOTTIME"):

    def clock() -> float:
        """Goes on while the machine sleeps, as the server's does."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:
    clock = time.monotonic


class Run:
    """A lease, and the handler that runs under it."""

    __slots__ = (
        "alone",
        "asyncio_task",
        "beat_at",
        "cause",
        "doubtful",
        "fence",
        "function",
        "job",
        "length",
        "outcome",
        "owned_at",
        "stopping_timer",
        "task",
        "token",
    )

    def __init__(self, row: Row, function: TaskFunction[Any, Any], asked_at: float) -> None:
        self.task = Task(row[1], *row[3:15])
        self.token: str = row[2]
        self.function = function
        self.cause: Stopped | None = None
        self.outcome: Outcome | None = None
        self.asyncio_task: asyncio.Task[None] | None = None
        self.job: Job | None = None
        self.stopping_timer: asyncio.TimerHandle | None = None
        self.doubtful = False
        """Returned before, without an answer."""
        self.alone = False
        """Returned alone, since a batch with it was refused."""
        self.owned_at: float = row[15]
        """After the ownership, by the server's clock."""
        self.extend(row[14], row[15], asked_at)

    def extend(self, deadline: float | None, now: float, asked_at: float) -> None:
        """Notes a lease that the server gave until `deadline` when its clock said `now`.

        It counts from before the question, so that the fence is early, never late.
        """
        self.task.set_deadline(deadline)
        self.length = FOREVER if deadline is None else max(0.0, deadline - now)
        self.fence = asked_at + 0.9 * self.length
        self.beat_at = asked_at + self.length / 3 * random.uniform(0.9, 1.1)

    @property
    def is_dropped(self) -> bool:
        return isinstance(self.cause, (Cancelled, LeaseLost))


@types.coroutine
def stoppable(coroutine: Coroutine[Any, Any, Any], run: Run) -> Generator[Any, Any, Any]:
    """Runs a handler. Where asyncio raises CancelledError in it, the handler sees the cause."""
    thrown: BaseException | None = None
    sent: Any = None
    while True:
        try:
            waited: Any = coroutine.send(sent) if thrown is None else coroutine.throw(thrown)
        except StopIteration as end:
            return end.value
        try:
            sent, thrown = (yield waited), None
        except GeneratorExit:
            coroutine.close()
            raise
        except asyncio.CancelledError as error:
            thrown = run.cause or error
        except BaseException as error:
            thrown = error
