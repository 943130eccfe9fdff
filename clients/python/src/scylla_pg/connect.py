"""Connections of the package's own, and what an error says about them."""

from __future__ import annotations

import os
import random
import select
import time
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import psycopg
from psycopg.conninfo import conninfo_to_dict

from .errors import sqlstate

Conninfo = str | Mapping[str, Any] | Callable[[], "str | Mapping[str, Any]"]
"""A connection string, its members, or a function that gives them for each connection,
for passwords that change."""

# A server that has vanished is noticed without these only after two hours.
_KEEPALIVE = {
    "connect_timeout": 10,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}


def parameters(conninfo: Conninfo, application_name: str) -> dict[str, Any]:
    """What to connect with. What the caller gives wins."""
    given = conninfo() if callable(conninfo) else conninfo
    known = conninfo_to_dict(given) if isinstance(given, str) else dict(given)
    return {**_KEEPALIVE, "application_name": application_name, **known}


def is_lost(error: BaseException, connection: Any) -> bool:
    """Whether the connection is gone, so that only another one can help.

    psycopg has 55000, 55006, 53400 and 57014 below OperationalError, too: these are answers.
    """
    if connection is None or connection.closed:
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError, OSError))
    code = sqlstate(error)
    if code is None:
        return isinstance(error, (psycopg.OperationalError, OSError))
    # a standby refuses with 25006: the next connection may find the primary
    return code[:2] == "08" or code in ("57P01", "57P02", "57P05", "25006")


def is_temporary(error: BaseException) -> bool:
    """Whether the server has refused a call that may work soon: it starts, stops, or is crowded."""
    return sqlstate(error) in ("57P01", "57P02", "57P03", "53300", "40001", "40P01")


def is_readable(connection: Any) -> bool:
    """Whether something came on an idle connection: as a rule that the server has closed it."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def pause(attempt: int, least: float = 0.1, most: float = 10.0) -> float:
    """Full jitter: any time up to a bound that doubles with each attempt."""
    return random.uniform(0, min(most, least * 2 ** min(attempt, 16)))


def new_id() -> UUID:
    """A UUIDv7, so that a submission can be repeated without being doubled."""
    milliseconds = time.time_ns() // 1_000_000
    value = milliseconds << 80 | int.from_bytes(os.urandom(10), "big")
    return UUID(int=value & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62)
