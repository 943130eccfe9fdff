"""Tasks through a worker of Python: ours, or a peer's. Usage:

main.py SYSTEM install                            makes its schema, in place of the one that is there
main.py SYSTEM fill TASKS                         adds tasks until there are so many
main.py SYSTEM work CONCURRENCY SECONDS           a handler that does nothing
main.py SYSTEM latency CONCURRENCY RATE SECONDS   submits singly at a rate: from the call to the handler,
                                                  without the first WARM seconds
main.py SYSTEM remove                             drops its schema

The connection comes from PGHOST and so on. Prints JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from math import inf

import psycopg
from procrastinate import App, PsycopgConnector
from scylla_pg import AsyncClient, Queue, Worker

AHEAD = 1500  # tasks that a worker may take at once, besides those that it runs
SESSIONS = 20  # that submit at once
WARM = 2  # seconds, in which pools connect
LATER = 30  # seconds, for what was submitted to be handled
Stop = Callable[[], Awaitable[None]]
Handle = Callable[[float], None]  # is given when the task was submitted, or 0


def sql(text: str) -> int:
    """Runs a statement; returns the number that it gives, if any."""
    with psycopg.connect(autocommit=True) as connection:
        cursor = connection.execute(text.encode())
        row = cursor.fetchone() if cursor.description else None
        return int(row[0]) if row else 0


class Scylla:
    """This extension, with the client in Python."""

    left = "select count(*) from scylla.task"

    def __init__(self, prefetch: int) -> None:
        self.prefetch = prefetch
        self.queue = Queue("bench")

    async def __aenter__(self) -> Scylla:
        self.client = AsyncClient()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()

    def remove(self) -> None:
        """Drops the schema."""
        sql("drop extension if exists scylla cascade")

    async def install(self) -> None:
        """Makes the schema."""
        sql("create extension scylla")

    async def fill(self, count: int) -> None:
        """Adds so many tasks."""
        await self.client.submit_many("bench", [{"at": 0}] * count, action="bench")

    async def submit(self, at: float) -> None:
        """Adds one."""
        await self.client.submit("bench", {"at": at}, action="bench")

    async def work(self, concurrency: int, handle: Handle) -> Stop:
        """Starts the worker."""

        @self.queue.task(action="bench")
        async def bench(at: float) -> None:
            handle(at)

        worker = Worker("", self.queue, concurrency=concurrency, prefetch=self.prefetch)
        running = asyncio.create_task(worker.run_async())

        async def stop() -> None:
            worker.stop()
            await running

        return stop


class Procrastinate:
    """Procrastinate, which takes and returns singly; a connection for each job at once, 60 at most."""

    left = "select count(*) from procrastinate.procrastinate_jobs where status in ('todo', 'doing')"

    async def __aenter__(self) -> Procrastinate:
        kwargs = {"options": "-c search_path=procrastinate"}
        size = int(sys.argv[3]) if sys.argv[2] in ("work", "latency") else 1
        connector = PsycopgConnector(kwargs=kwargs, min_size=1, max_size=min(size + 2, 60))
        self.app = App(connector=connector)
        self.handle: Handle = lambda _: None

        @self.app.task(queue="bench", name="bench")
        async def bench(at: float) -> None:
            self.handle(at)

        self.bench = bench
        await self.app.open_async()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.app.close_async()

    def remove(self) -> None:
        """Drops the schema."""
        sql("drop schema if exists procrastinate cascade")

    async def install(self) -> None:
        """Makes the schema."""
        sql("create schema procrastinate")
        await self.app.schema_manager.apply_schema_async()

    async def fill(self, count: int) -> None:
        """Adds so many tasks."""
        await self.bench.batch_defer_async(*({"at": 0} for _ in range(count)))

    async def submit(self, at: float) -> None:
        """Adds one."""
        await self.bench.defer_async(at=at)

    async def work(self, concurrency: int, handle: Handle) -> Stop:
        """Starts the worker."""
        self.handle = handle
        worker = self.app.run_worker_async(
            queues=["bench"], concurrency=concurrency, install_signal_handlers=False, fetch_job_polling_interval=1
        )
        running = asyncio.create_task(worker)

        async def stop() -> None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

        return stop


System = Scylla | Procrastinate
SYSTEMS: dict[str, Callable[[], System]] = {
    "scylla": lambda: Scylla(0),
    "scylla-prefetch": lambda: Scylla(AHEAD),
    "procrastinate": Procrastinate,
}


async def fill(system: System, tasks: int) -> dict[str, float]:
    """Adds tasks until there are so many."""
    for _ in range(0, tasks - sql(system.left), 1000):
        await system.fill(1000)
    return {"left": sql(system.left)}


async def work(system: System, concurrency: int, seconds: int) -> dict[str, float]:
    """How many tasks a second are handled."""
    handled = 0

    def handle(_: float) -> None:
        nonlocal handled
        handled += 1

    stop = await system.work(concurrency, handle)
    waits = 0
    while not handled:
        if (waits := waits + 1) > 1000 * LATER:
            raise TimeoutError("no task was handled")
        await asyncio.sleep(0.001)
    before, begun = handled, time.perf_counter()
    await asyncio.sleep(seconds)
    rate = (handled - before) / (time.perf_counter() - begun)
    await stop()
    return {"rate": rate, "handled": handled, "left": sql(system.left)}


async def latency(system: System, concurrency: int, rate: int, seconds: int) -> dict[str, float]:
    """From the call that submits to the handler, in milliseconds."""
    found: list[float] = []
    handled, counted = 0, inf
    sessions = asyncio.Semaphore(SESSIONS)

    async def submit(at: float) -> None:
        async with sessions:
            await system.submit(at)

    def handle(at: float) -> None:
        nonlocal handled
        handled += 1
        if at >= counted:
            found.append((time.perf_counter() - at) * 1000)

    stop = await system.work(concurrency, handle)
    await asyncio.sleep(1)
    begun = time.perf_counter()
    counted, number = begun + WARM, rate * (WARM + seconds)
    async with asyncio.TaskGroup() as group:
        for n in range(number):
            await asyncio.sleep(max(begun + n / rate - time.perf_counter(), 0))
            group.create_task(submit(time.perf_counter()))
    until = time.perf_counter() + LATER
    while handled < number and time.perf_counter() < until:
        await asyncio.sleep(0.01)
    await stop()
    found.sort()
    return {
        "submitted": number,
        "handled": handled,
        "p50": found[len(found) // 2],
        "p99": found[len(found) * 99 // 100],
    }


async def main() -> dict[str, float]:
    """Runs the command."""
    name, command, *numbers = sys.argv[1:]
    made = SYSTEMS[name]()
    if command in ("install", "remove"):
        made.remove()
    if command == "remove":
        return {}
    async with made as system:
        if command == "install":
            await system.install()
            return {}
        run: Callable[..., Awaitable[dict[str, float]]] = {"fill": fill, "work": work, "latency": latency}[command]
        return await run(system, *map(int, numbers))


logging.disable(logging.ERROR)
print(json.dumps(asyncio.run(main())))
