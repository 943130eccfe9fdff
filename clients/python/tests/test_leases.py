"""Leases: kept, lost, cancelled."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Program, Server, serving, until

from scylla_pg import Cancelled, Client, Queue, Stopped, Task, Worker


def causes(queue: Queue) -> tuple[list[tuple[str, float]], Any, Any]:
    """Handlers that note for which cause they are stopped, and when."""
    heard: list[tuple[str, float]] = []

    @queue.task
    async def sleep_async(seconds: float) -> str:
        try:
            await asyncio.sleep(seconds)
        except Stopped as cause:
            heard.append((type(cause).__name__, time.time()))
            raise
        return "slept"

    @queue.task
    def sleep_thread(task: Task, seconds: float) -> str:
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                time.sleep(0.005)
        except Stopped as cause:
            heard.append((type(cause).__name__, time.time()))
            raise
        return "slept"

    return heard, sleep_async, sleep_thread


def test_task_of_three_leases_is_kept(server: Server, queue: Queue, client: Client) -> None:
    heard, sleep_async, sleep_thread = causes(queue)
    ids = [f.using(post_result=True).submit(seconds=3.2) for f in (sleep_async, sleep_thread)]
    # another one would take them at once
    with serving(Worker(server.dsn, queue, lease=1), Worker(server.dsn, queue, lease=1)):
        assert [client.result(id) for id in ids] == ["slept", "slept"]
    assert heard == []
    for id in ids:
        task = client.task(id)
        assert task["tries"] == 1
        assert [entry["_typ"] for entry in task["history"]] == ["TaskAssignment"]


def test_each_lease_has_its_own_length(server: Server, queue: Queue, client: Client) -> None:
    heard, sleep_async, _ = causes(queue)
    short = sleep_async.using(post_result=True, lease=0.6).submit(seconds=2)
    long = sleep_async.using(post_result=True, lease=60).submit(seconds=2)
    with serving(Worker(server.dsn, queue), Worker(server.dsn, queue)):
        assert [client.result(id) for id in (short, long)] == ["slept", "slept"]
    assert heard == [] and client.task(short)["tries"] == 1


@pytest.mark.parametrize("end", ["cancel", "delete"])
@pytest.mark.parametrize("full", [False, True], ids=["free", "full"])
def test_cancel_is_heard_within_200_ms(
    server: Server, queue: Queue, client: Client, end: str, full: bool
) -> None:
    heard, sleep_async, sleep_thread = causes(queue)
    worker = Worker(server.dsn, queue, concurrency=2 if full else 5)
    ids = [f.submit(seconds=30) for f in (sleep_async, sleep_thread)]
    if full:
        client.submit_many(queue.name, [{"seconds": 0}] * 3, action="sleep_async")
    with serving(worker):
        until(lambda: server.statuses(queue.name).get("running") == 2)
        for count, id in enumerate(ids, 1):
            before = time.time()
            if end == "cancel":
                assert client.cancel(id)
            else:
                assert client.delete([id]) == 1
            until(lambda count=count: len(heard) == count)
            assert heard[-1][0] == "Cancelled"
            assert heard[-1][1] - before < 0.2, count
        until(lambda: worker.stats["cancelled"] == 2)
    if end == "cancel":
        assert [client.task(id)["status"] for id in ids] == ["cancelled"] * 2
    assert worker.stats["completed"] == (3 if full else 0)


def test_result_after_a_cancel_is_dropped(server: Server, queue: Queue, client: Client) -> None:
    begun, reached = threading.Event(), []

    @queue.task(interrupt=False)
    def stubborn(task: Task) -> str:
        begun.set()
        assert isinstance(until(lambda: task.cause), Cancelled)
        with pytest.raises(Cancelled):
            task.check()
        reached.append("end")
        return "too late"

    id = stubborn.submit()
    with serving(Worker(server.dsn, queue)) as worker:
        begun.wait(20)
        client.cancel(id)
        until(lambda: worker.stats["cancelled"] == 1)
    assert reached == ["end"]
    assert client.task(id)["result"] is None


def test_frozen_process_loses_its_lease(
    server: Server, client: Client, queue_name: str, program: Callable[..., Program]
) -> None:
    first = program(lease=1, concurrency=2)
    ids = [client.submit(queue_name, {"seconds": 1.5}, action=a) for a in ("sleep", "ignore")]
    until(lambda: len(first.lines()) == 2)
    os.kill(first.pid, signal.SIGSTOP)
    second = program(lease=1, concurrency=2)
    until(second.said("begin"))
    # the second one has both, or has finished them, when the first one wakes
    until(lambda: sum("begin" in line for line in second.lines()) == 2)
    os.kill(first.pid, signal.SIGCONT)
    until(lambda: server.statuses(queue_name) == {"completed": 2})
    until(first.said("LeaseLost"))
    for id in ids:
        task = client.task(id)
        owners = [e["worker"] for e in task["history"] if e["_typ"] == "TaskAssignment"]
        assert len(owners) == 2 and str(second.pid) in owners[1]
    os.kill(first.pid, signal.SIGTERM)
    assert first.end() == 0
    assert "lost=2" in first.lines()[-1] and "completed" not in first.lines()[-1]


def test_fence_is_before_the_leases_end(server: Server, queue: Queue, client: Client) -> None:
    """Without a server the handler is stopped at 0.9 of its lease."""
    heard, sleep_async, _ = causes(queue)
    begun = threading.Event()

    @queue.task
    async def begin() -> None:
        begun.set()
        await sleep_async(30)

    begin.submit()
    with serving(Worker(server.dsn, queue, lease=1.5, call_timeout=1)):
        assert begun.wait(20)
        with server.frozen():
            frozen = time.time()
            until(lambda: heard)
        cause, when = heard[0]
        assert cause == "LeaseLost"
        # between half a lease (the last heartbeat was up to a third ago) and 0.9 of it
        assert 0.4 * 1.5 < when - frozen < 0.95 * 1.5


def test_two_workers_in_one_process(server: Server, queue: Queue, client: Client) -> None:
    by: dict[str, int] = {}

    @queue.task
    async def note(task: Task) -> None:
        await asyncio.sleep(0.005)

    client.submit_many(queue.name, [{}] * 300, action="note")
    first, second = (Worker(server.dsn, queue, concurrency=4) for _ in range(2))
    with serving(first, second):
        until(lambda: server.statuses(queue.name) == {"completed": 300})
    by = {w.name: w.stats["completed"] for w in (first, second)}
    assert sum(by.values()) == 300 and all(by.values())
