"""What a handler gets."""

from __future__ import annotations

import json
import threading
from datetime import datetime, timezone
from typing import Any
from uuid import UUID

from .errors import Stopped


class Task:
    """A task that this worker owns, for as long as its handler runs."""

    __slots__ = (
        "_cause",
        "_created",
        "_deadline",
        "_id",
        "_meta",
        "_progress",
        "_spec",
        "_stopping",
        "action",
        "group_key",
        "key",
        "max_tries",
        "num_failures",
        "priority",
        "queue",
        "tries",
    )

    queue: str
    action: str
    priority: int
    key: str | None
    group_key: str | None
    tries: int
    """This try's number: 1 for the first."""
    max_tries: int
    """How many there can be; 0: no limit."""
    num_failures: int
    """How many of the tasks that this one waited for have failed."""

    def __init__(
        self,
        id: str,
        queue: str,
        action: str = "",
        spec: str = "{}",
        priority: int = 0,
        key: str | None = None,
        tries: int = 1,
        num_failures: int = 0,
        group_key: str | None = None,
        created: float = 0.0,
        max_tries: int = 0,
        meta: str | None = None,
        deadline: float | None = None,
    ) -> None:
        self._id = id
        self.queue = queue
        self.action = action
        self._spec = spec
        self.priority = priority
        self.key = key
        self.tries = tries
        self.num_failures = num_failures
        self.group_key = group_key
        self._created = created
        self.max_tries = max_tries
        self._meta = meta
        self._deadline = deadline
        self._progress: float | None = None
        self._cause: Stopped | None = None
        self._stopping: threading.Event | None = None

    @property
    def id(self) -> UUID:
        return UUID(self._id)

    @property
    def spec(self) -> Any:
        return json.loads(self._spec)

    @property
    def meta(self) -> dict[str, Any]:
        return json.loads(self._meta) if self._meta else {}

    @property
    def created(self) -> datetime:
        return datetime.fromtimestamp(self._created, timezone.utc)

    @property
    def deadline(self) -> datetime | None:
        """When the lease ends, by the server's clock, unless it is extended; the worker does so."""
        if self._deadline is None:
            return None
        return datetime.fromtimestamp(self._deadline, timezone.utc)

    @property
    def is_last_try(self) -> bool:
        return self.max_tries > 0 and self.tries >= self.max_tries

    def progress(self, share: float) -> None:
        """Notes how much is done, 0 to 1. It is sent with the next heartbeat."""
        if not 0 <= share <= 1:
            raise ValueError(f"progress is between 0 and 1, not {share}")
        self._progress = share

    # ---- for handlers in threads; in asyncio the cause comes out of an await ----

    @property
    def cause(self) -> Stopped | None:
        """Why the worker stops this handler; None: it does not."""
        return self._cause

    def check(self) -> None:
        """Raises the cause, once the worker stops this handler."""
        if self._cause is not None:
            raise self._cause

    def sleep(self, seconds: float) -> None:
        """As time.sleep, but raises the cause as soon as the worker stops this handler."""
        if self._stopping is None:
            self._stopping = threading.Event()
        self.check()  # it may have been stopped before there was an event
        self._stopping.wait(seconds)
        self.check()

    def __repr__(self) -> str:
        return f"<Task {self._id} {self.queue}/{self.action} try {self.tries}>"

    # ---- for the worker ----

    def raw_id(self) -> str:
        return self._id

    def take_progress(self) -> float | None:
        """What the handler noted since it was asked last."""
        share, self._progress = self._progress, None
        return share

    def put_back_progress(self, share: float | None) -> None:
        if self._progress is None:
            self._progress = share

    def set_deadline(self, deadline: float | None) -> None:
        self._deadline = deadline

    def set_cause(self, cause: Stopped) -> None:
        self._cause = cause
        if self._stopping is not None:
            self._stopping.set()
