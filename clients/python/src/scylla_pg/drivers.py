"""Runs a call on a connection that belongs to the caller, in the caller's transaction.

Connections are known by the module of their class. No driver and no ORM is imported here; the one
that made the connection is loaded already.
"""

from __future__ import annotations

import sys
from typing import Any, TypeVar

from .calls import Call

T = TypeVar("T")


def _origin(connection: Any) -> str:
    """The package that made it, and with SQLAlchemy and psycopg whether it is asynchronous."""
    for kind in type(connection).__mro__:
        package = kind.__module__.split(".")[0]
        if package in ("psycopg", "asyncpg", "sqlalchemy"):
            return (
                f"{package} async"
                if "Async" in kind.__name__ or "async" in kind.__name__
                else package
            )
    return "dbapi" if callable(getattr(connection, "cursor", None)) else "unknown"


def _numbered(call: Call[Any], mark: str) -> str:
    """The statement with its parameters numbered, as $1 or :p1."""
    pieces = call.sql.split("%s")
    numbered = (f"{mark}{number}{piece}" for number, piece in enumerate(pieces[1:], 1))
    return pieces[0] + "".join(numbered)


def _sqlalchemy(call: Call[Any]) -> tuple[Any, dict[str, Any]]:
    # `::` would end a name of SQLAlchemy's text
    sql = _numbered(call, ":p").replace("::", "\\:\\:")
    statement = sys.modules["sqlalchemy"].text(sql)
    return statement, {f"p{number}": value for number, value in enumerate(call.params, 1)}


def run(connection: Any, call: Call[T]) -> T:
    """On a connection of psycopg, SQLAlchemy or Django, a session, or any DB-API with `%s`."""
    origin = _origin(connection)
    if origin == "sqlalchemy":
        row = connection.execute(*_sqlalchemy(call)).fetchone()
    elif origin == "psycopg":
        psycopg = sys.modules["psycopg"]
        with psycopg.Cursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
            row = cursor.execute(call.sql, call.params).fetchone()
    elif origin == "dbapi":
        with connection.cursor() as cursor:
            cursor.execute(call.sql, call.params)
            row = cursor.fetchone()
    elif origin == "unknown":
        raise TypeError(f"conn is no connection to PostgreSQL: {type(connection).__name__}")
    else:
        raise TypeError(
            f"{type(connection).__name__} is asynchronous: await submit_async(...) instead"
        )
    return call.read(row)


async def run_async(connection: Any, call: Call[T]) -> T:
    """On an asynchronous connection of psycopg, asyncpg or SQLAlchemy, or an AsyncSession."""
    origin = _origin(connection)
    if origin == "sqlalchemy async":
        row = (await connection.execute(*_sqlalchemy(call))).fetchone()
    elif origin == "psycopg async":
        psycopg = sys.modules["psycopg"]
        async with psycopg.AsyncCursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
            await cursor.execute(call.sql, call.params)
            row = await cursor.fetchone()
    elif origin.startswith("asyncpg"):
        row = await connection.fetchrow(_numbered(call, "$"), *call.params)
    elif origin == "unknown":
        raise TypeError(f"conn is no connection to PostgreSQL: {type(connection).__name__}")
    else:
        raise TypeError(
            f"{type(connection).__name__} is not asynchronous: use submit, without await"
        )
    return call.read(row)
