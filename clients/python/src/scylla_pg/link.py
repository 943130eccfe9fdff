"""A worker's connections: each call has a time-out, and a lost connection is replaced."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Sequence
from typing import Any

import psycopg

from .connect import Conninfo, is_lost, is_readable, parameters
from .errors import sqlstate

Row = tuple[Any, ...]
Connection = psycopg.AsyncConnection[Row]

# Behind a pooler that does not know prepared statements: one is absent, or there already.
_UNPREPARED = ("26000", "42P05")


class Gone(Exception):
    """The connection was lost. Whether the server has carried out the call is unknown."""


def sever(connection: Connection) -> None:
    """Ends a connection on which the server does not answer; who waits on it gets an error.

    To cancel the query would need an answer from the same server.
    """
    if connection.closed:
        return
    with socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
        try:
            duplicate.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # ended already


def _name_apart(connection: Connection) -> bool:
    """Has its prepared statements get names that no other session's have, if psycopg lets that be.

    Behind a pooler of old, what another session has prepared under the name would be executed.
    """
    names = getattr(connection, "_prepared", None)
    if not isinstance(getattr(names, "_prepared_idx", None), int):
        return False
    names._prepared_idx = random.getrandbits(62)  # type: ignore[union-attr]
    return True


class Link:
    """Opens connections, and runs short calls on a few of them."""

    def __init__(self, conninfo: Conninfo, name: str, size: int, timeout: float) -> None:
        self._conninfo = conninfo
        self._name = name
        self._timeout = timeout
        self._places = asyncio.Semaphore(size)
        self._free: list[Connection] = []
        self._used: set[Connection] = set()
        self._prepare: int | None = 5

    async def open(self) -> Connection:
        """A new connection, that of no pool."""
        known = parameters(self._conninfo, self._name)
        try:
            connection = await asyncio.wait_for(
                psycopg.AsyncConnection.connect(
                    autocommit=True, prepare_threshold=self._prepare, **known
                ),
                self._timeout,
            )
        except (psycopg.OperationalError, OSError, asyncio.TimeoutError) as error:
            raise Gone(str(error) or "no answer to a connection attempt") from error
        if not _name_apart(connection):
            connection.prepare_threshold = None
        return connection

    async def execute(
        self, connection: Connection, sql: str, params: Sequence[Any], timeout: float
    ) -> list[Row]:
        """Runs one statement. Gone: the connection is of no more use."""
        timer = asyncio.get_running_loop().call_later(timeout, sever, connection)
        try:
            cursor = await connection.execute(sql.encode(), params)
            return await cursor.fetchall()
        except (psycopg.Error, OSError) as error:
            if sqlstate(error) in _UNPREPARED and self._prepare is not None:
                self._prepare = None
                for other in (*self._free, *self._used, connection):
                    other.prepare_threshold = None
                return await self.execute(connection, sql, params, timeout)
            if is_lost(error, connection):
                raise Gone(str(error)) from error
            raise
        finally:
            timer.cancel()

    async def run(self, sql: str, params: Sequence[Any], timeout: float | None = None) -> list[Row]:
        """Runs one statement on a connection of the pool."""
        async with self._places:
            connection = await self._take()
            self._used.add(connection)
            try:
                rows = await self.execute(connection, sql, params, timeout or self._timeout)
            except Gone:
                await connection.close()
                raise
            except psycopg.Error:
                self._free.append(connection)
                raise
            else:
                self._free.append(connection)
                return rows
            finally:
                self._used.discard(connection)

    async def _take(self) -> Connection:
        while self._free:
            connection = self._free.pop()
            if not connection.closed and not is_readable(connection):
                return connection
            await connection.close()
        return await self.open()

    async def close(self) -> None:
        """Closes what is free, and severs what still waits for an answer."""
        for connection in self._used:
            sever(connection)
        await self.clear()

    async def clear(self) -> None:
        while self._free:
            await self._free.pop().close()
