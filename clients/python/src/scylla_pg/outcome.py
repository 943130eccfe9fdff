"""What becomes of a task when its handler has ended."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from .codec import clean, encode
from .errors import Abort, Cancelled, LeaseLost, Shutdown, Snooze, Stopped, TimeLimitExceeded

_MOST_TRACEBACK = 20_000
_PACKAGE = os.path.dirname(__file__) + os.sep


class Outcome:
    """The arguments of return_many for one task."""

    __slots__ = ("error", "kind", "result", "run_at")

    def __init__(
        self,
        kind: str,
        result: str | None = None,
        error: str | None = None,
        run_at: str | None = None,
    ) -> None:
        self.kind = kind
        self.result = result
        self.error = error
        self.run_at = run_at


COMPLETED = Outcome("completed")
YIELD = Outcome("yield")


def of_value(value: Any) -> Outcome:
    """ValueError and TypeError when JSON has no form for the value."""
    return COMPLETED if value is None else Outcome("completed", result=encode(value))


def of_error(error: BaseException, cause: Stopped | None, clock_offset: float) -> Outcome | None:
    """None: nothing is returned, since the lease is over."""
    if isinstance(cause, (Cancelled, LeaseLost)):
        return None
    try:
        return _of_error(error, cause, clock_offset)
    except Exception as broken:  # a __str__ that raises, a Snooze without end
        what = f"{type(error).__name__} of the handler: {type(broken).__name__}"
        return Outcome("retry", error=failure("invalid_error", what))


def _of_error(error: BaseException, cause: Stopped | None, clock_offset: float) -> Outcome:
    if isinstance(error, Abort):
        return Outcome("aborted", error=_abort(error))
    if isinstance(error, Snooze):
        return Outcome("yield", run_at=_moment(error.delay, clock_offset))
    if isinstance(cause, Shutdown):
        return YIELD
    if isinstance(cause, TimeLimitExceeded):
        return Outcome("retry", error=failure("time_limit", str(cause), error))
    return Outcome("retry", error=failure(type(error).__name__, str(error), error))


def failure(code: str, description: str, error: BaseException | None = None) -> str:
    """The JSON of an error, small enough to be stored, of characters that can be stored."""
    args: dict[str, Any] = {}
    if error is not None:
        kind = type(error)
        args["type"] = f"{kind.__module__}.{kind.__qualname__}"
        frame = error.__traceback__
        while frame is not None and frame.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            frame = frame.tb_next  # from the handler on
        text = clean("".join(traceback.format_exception(kind, error, frame)))
        # the end has what went wrong
        args["traceback"] = text[-_MOST_TRACEBACK:]
    return encode({"code": clean(code), "description": clean(description[:4000]), "args": args})


def _abort(error: Abort) -> str:
    args: Mapping[str, Any] = error.error_args
    try:
        return encode({"code": error.code, "description": error.description, "args": args})
    except (TypeError, ValueError):
        return encode(
            {
                "code": clean(str(error.code)),
                "description": clean(str(error.description)),
                "args": {clean(name): clean(repr(value)) for name, value in args.items()},
            }
        )


def _moment(delay: float | timedelta | datetime, clock_offset: float) -> str:
    """A time by the server's clock, which may differ from this machine's."""
    if isinstance(delay, datetime):
        return (delay if delay.tzinfo else delay.astimezone()).isoformat()
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    moment = time.time() + clock_offset + max(0.0, seconds)
    return datetime.fromtimestamp(moment, timezone.utc).isoformat()
