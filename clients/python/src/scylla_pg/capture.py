"""Where submissions go while a test records them."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol
from uuid import UUID

from .calls import Submission


class Recorder(Protocol):
    def add(self, submission: Submission) -> list[UUID]: ...


recorder: ContextVar[Recorder | None] = ContextVar("scylla_pg.recorder", default=None)


def captured() -> Recorder | None:
    return recorder.get()
