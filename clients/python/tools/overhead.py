#!/usr/bin/env python3
"""overhead: tasks a second through a worker whose handler does nothing, and through bare psycopg
that makes the same calls (return what was owned, own the next, in one statement).

overhead.py [ROUNDS]: on the server of PGHOST and so on; in turns, the median of the rounds. Also the
processor time of the client's process for each task, which a busy machine changes less.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import psycopg

from scylla_pg import Client, Queue, Worker
from scylla_pg.outcome import COMPLETED
from scylla_pg.statements import Exchange, return_parameters

QUEUE = "overhead"
Figures = tuple[float, float]


def bare(size: int, total: int, function: str) -> Figures:
    sql = Exchange("bare", [QUEUE], [function], None)

    async def run() -> int:
        done = 0
        async with await psycopg.AsyncConnection.connect("", autocommit=True) as connection:
            cursor = await connection.execute(sql.owning.encode(), sql.own(size))
            rows = await cursor.fetchall()
            while rows and rows[0][1]:
                done += len(rows)
                returned = return_parameters(
                    [row[1] for row in rows], [row[2] for row in rows], [COMPLETED] * len(rows)
                )
                params = sql.return_and_own(returned, size)
                rows = await (await connection.execute(sql.both.encode(), params)).fetchall()
        return done

    return measured(lambda: asyncio.run(run()), total)


def worker(size: int, total: int, function: str) -> Figures:
    queue = Queue(QUEUE)
    left = total

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            made.stop()

    if function == "in_a_thread":
        queue.task(action=function)(count)
    else:

        @queue.task(action=function)
        async def on_the_loop() -> None:
            count()

    made = Worker("", queue, concurrency=size)

    def run() -> int:
        made.run()
        return made.stats["completed"]

    return measured(run, total)


def measured(run: Callable[[], int], total: int) -> Figures:
    begun, used = time.monotonic(), time.process_time()
    done = run()
    assert done == total, f"{done} of {total}"
    return done / (time.monotonic() - begun), (time.process_time() - used) / done * 1e6


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    client = Client()
    print("concurrency, what: tasks a second, microseconds of processor time for a task")
    for size, total in ((1, 2000), (32, 20_000), (100, 30_000), (256, 30_000)):
        kinds: list[tuple[str, Any, str]] = [
            ("bare psycopg", bare, "on_the_loop"),
            ("worker, async def", worker, "on_the_loop"),
            ("worker, def in threads", worker, "in_a_thread"),
        ]
        found: dict[str, list[Figures]] = {name: [] for name, _, _ in kinds}
        for _ in range(rounds):
            for name, run, function in kinds:
                client.submit_many(QUEUE, [{}] * total, action=function)
                found[name].append(run(min(size, 100) if run is bare else size, total, function))
        for name, figures in found.items():
            rate, used = (statistics.median(column) for column in zip(*figures, strict=True))
            print(f"{size:4}  {name:24} {rate:8.0f} {used:8.1f}", flush=True)


main()
