"""The driver of clients/conformance: driver.py URL. Commands and events are lines of JSON."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import sys
import threading
from typing import Any

import psycopg

from scylla_pg import Abort, Client, Queue, Snooze, Stopped, Task, Worker
from scylla_pg.errors import sqlstate

url = sys.argv[1]
client = Client(url)
snoozed: set[Any] = set()
workers: queue.Queue[Worker] = queue.Queue()


def say(**members: Any) -> None:
    os.write(1, json.dumps(members).encode() + b"\n")


async def work(
    task: Task, ms: float = 0, then: str = "", deaf: bool = False, value: Any = None
) -> Any:
    id = str(task.id)
    say(event="begin", task=id, tries=task.tries)
    left = asyncio.get_running_loop().time() + ms / 1000
    while ms:
        try:
            await asyncio.sleep(left - asyncio.get_running_loop().time())
            break
        except Stopped as cause:
            say(event="stopped", task=id, cause=type(cause).__name__)
            if not deaf:
                raise
    if then == "snooze" and id not in snoozed:
        snoozed.add(id)
        say(event="stopped", task=id, cause="Snooze")
        raise Snooze(0.3)
    say(event="end", task=id)
    if then == "error":
        raise RuntimeError("told to fail")
    if then == "abort":
        raise Abort("told", "told to abort")
    return task.meta if then == "meta" else value


def submit(command: dict[str, Any]) -> list[Any]:
    name, spec, count = command["queue"], command["spec"], command["count"]
    options = {"action": command["action"], **command["options"]}

    def send(conn: Any = None) -> list[Any]:
        if count > 1:
            return client.submit_many(name, [spec] * count, conn=conn, **options)
        return [client.submit(name, spec, conn=conn, **options)]

    where = command.get("in")
    if where is None:
        return send()
    with psycopg.connect(url) as conn:
        if where == "savepoint":
            with conn.transaction() as inner:
                ids = send(conn)
                raise psycopg.Rollback(inner)
        else:
            ids = send(conn)
        if where == "rollback":
            conn.rollback()
    return ids


def do(command: dict[str, Any]) -> dict[str, Any]:
    match command["do"]:
        case "submit":
            return {"tasks": [str(id) for id in submit(command)]}
        case "result":
            return {"value": client.result(command["task"], timeout=60)}
        case "work":
            served = [Queue(name) for name in command["queues"]]
            for one in served:
                one.task(work)
            given = ("name", "concurrency", "lease", "grace")
            options = {name: command[name] for name in given if name in command}
            workers.put(Worker(url, served, **options))
            return {}
    raise ValueError(f"unknown command {command['do']!r}")


def read() -> None:
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = do(command)
        except Exception as error:
            answer = {"error": str(error), "sqlstate": sqlstate(error)}
        say(id=command["id"], **answer)


threading.Thread(target=read, daemon=True).start()
workers.get().run()
