"""A worker of its own process: program.py DSN QUEUE LOG [OPTION=NUMBER]...

Its handlers write what happens to them into LOG, one line each.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time

from scylla_pg import Queue, Stopped, Task, Worker

dsn, name, path, *words = sys.argv[1:]
options = {word.split("=")[0]: float(word.split("=")[1]) for word in words}
if "concurrency" in options:
    options["concurrency"] = int(options["concurrency"])
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
queue = Queue(name)
log = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)


def say(*words: object) -> None:
    os.write(log, (" ".join(map(str, words)) + "\n").encode())


@queue.task
async def sleep(task: Task, seconds: float) -> str:
    say("begin", task.id, task.tries)
    try:
        await asyncio.sleep(seconds)
    except Stopped as cause:
        say(type(cause).__name__, task.id, time.time())
        raise
    say("end", task.id)
    return "slept"


@queue.task
async def ignore(task: Task, seconds: float) -> str:
    """Does not stop when it is told to."""
    say("begin", task.id, task.tries)
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        try:
            await asyncio.sleep(left)
        except Stopped as cause:
            say(type(cause).__name__, task.id)
    say("end", task.id)
    return "done"


@queue.task(interrupt=False)
def block(task: Task, seconds: float) -> None:
    """In a thread that cannot be stopped."""
    say("begin", task.id, task.tries)
    time.sleep(seconds)
    say("end", task.id)


@queue.task
def quick(n: int) -> int:
    say("ran", n)
    return n


worker = Worker(dsn, queue, **options)
worker.run()
say("exit", *(f"{kind}={count}" for kind, count in sorted(worker.stats.items())))
