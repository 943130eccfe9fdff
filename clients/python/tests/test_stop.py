"""How a worker ends."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import psycopg
import pytest
from conftest import Program, Server, serving, until

from scylla_pg import Client, IncompatibleError, Queue, Worker, run_all

Start = Callable[..., Program]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_drain_lets_handlers_end(
    server: Server, client: Client, queue_name: str, program: Start, number: signal.Signals
) -> None:
    worker = program(concurrency=2)
    ids = [client.submit(queue_name, {"seconds": 1}, action=a) for a in ("sleep", "block")]
    until(lambda: len(worker.lines()) == 2)
    later = client.submit(queue_name, {"seconds": 0}, action="sleep")
    os.kill(worker.pid, number)
    assert worker.end() == 0
    assert worker.lines()[-1] == "exit completed=2"
    assert [client.task(id)["status"] for id in (*ids, later)] == ["completed"] * 2 + ["ready"]


def test_drain_worker(server: Server, client: Client, queue_name: str, program: Start) -> None:
    worker = program(concurrency=1)  # full: it waits for signals only
    id = client.submit(queue_name, {"seconds": 1}, action="sleep")
    until(worker.said("begin"))
    name = client.task(id)["owner"]
    assert client.drain_worker(name)
    assert worker.end() == 0
    assert worker.lines()[-1] == "exit completed=1"


def test_drain_worker_that_is_idle(
    server: Server, client: Client, queue_name: str, program: Start
) -> None:
    worker = program(concurrency=1)
    client.submit(queue_name, {"n": 1}, action="quick")
    until(worker.said("ran 1"))
    sql = "select worker from scylla.workers where queue = %s"
    assert client.drain_worker(server.value(sql, queue_name))
    assert worker.end() == 0


@pytest.mark.parametrize("action", ["sleep", "ignore", "block"])
def test_grace_over(
    server: Server, client: Client, queue_name: str, program: Start, action: str
) -> None:
    """The handler hears Shutdown; whether it listens or not, the task is handed back in time."""
    worker = program(grace=0.5, concurrency=2)
    id = client.submit(queue_name, {"seconds": 60}, action=action)
    until(worker.said("begin"))
    begun = time.monotonic()
    os.kill(worker.pid, signal.SIGTERM)
    assert worker.end() == 0
    took = time.monotonic() - begun
    assert 0.5 < took < (2 if action == "sleep" else 0.5 + 5)
    if action != "block":
        assert worker.said("Shutdown")()
    task = client.task(id)
    assert (task["status"], task["tries"], task["owner"]) == ("ready", 0, None)
    assert worker.lines()[-1] == "exit yielded=1"


def test_second_signal_hands_back_at_once(
    server: Server, client: Client, queue_name: str, program: Start
) -> None:
    worker = program(concurrency=3)
    ids = [
        client.submit(queue_name, {"seconds": 60}, action=a) for a in ("sleep", "ignore", "block")
    ]
    until(lambda: len(worker.lines()) == 3)
    os.kill(worker.pid, signal.SIGTERM)
    until(
        lambda: (
            server.value(
                "select count(*) from scylla.tasks where queue = %s and status = 'running'",
                queue_name,
            )
            == 3
        )
    )
    begun = time.monotonic()
    os.kill(worker.pid, signal.SIGTERM)
    assert worker.end() == 0
    assert time.monotonic() - begun < 2
    for id in ids:
        task = client.task(id)
        assert (task["status"], task["tries"]) == ("ready", 0)


def test_kill_9(server: Server, client: Client, queue_name: str, program: Start) -> None:
    first = program(lease=1, concurrency=1)
    id = client.submit(queue_name, {"seconds": 3}, action="sleep")
    until(first.said("begin"))
    first.process.kill()
    second = program(lease=1, concurrency=1)
    until(lambda: client.task(id)["status"] == "completed")
    task = client.task(id)
    assert [e["_typ"] for e in task["history"]].count("TaskAssignment") == 2
    assert second.said(f"begin {id} 2")()


def test_prefetched_tasks_are_handed_back(server: Server, queue: Queue, client: Client) -> None:
    import threading

    go = threading.Event()

    @queue.task
    def work() -> None:
        go.wait(20)

    client.submit_many(queue.name, [{}] * 4, action="work")
    with serving(Worker(server.dsn, queue, concurrency=1, prefetch=3)) as worker:
        until(lambda: server.statuses(queue.name) == {"running": 4})
        worker.stop()
        until(lambda: server.statuses(queue.name) == {"running": 1, "ready": 3})
        go.set()
        until(lambda: server.statuses(queue.name) == {"completed": 1, "ready": 3})
    assert worker.stats == {"completed": 1, "yielded": 3}


def test_stop_without_a_server(
    server: Server, client: Client, queue_name: str, program: Start
) -> None:
    worker = program(grace=1, lease=60, concurrency=1)
    client.submit(queue_name, {"seconds": 60}, action="sleep")
    until(worker.said("begin"))
    server.stop("immediate")
    try:
        begun = time.monotonic()
        os.kill(worker.pid, signal.SIGTERM)
        worker.end()
        assert time.monotonic() - begun < 1 + 5
        assert worker.said("Shutdown")()
    finally:
        server.start()


def test_cancelled_coroutine_hands_back(server: Server, queue: Queue, client: Client) -> None:
    import asyncio

    @queue.task
    async def sleep() -> None:
        await asyncio.sleep(60)

    id = sleep.submit()

    async def run() -> None:
        worker = Worker(server.dsn, queue)
        serving = asyncio.create_task(worker.run_async())
        while client.task(id)["status"] != "running":
            await asyncio.sleep(0.01)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving

    asyncio.run(run())
    task = client.task(id)
    assert (task["status"], task["tries"]) == ("ready", 0)


def test_workers_of_several_databases_run_as_one(server: Server, queue_name: str) -> None:
    second = f"second_{queue_name.replace('-', '_')}"
    server.execute(f"create database {second}")
    databases = [server.dsn, server.dsn.replace("dbname=postgres", f"dbname={second}")]
    with psycopg.connect(databases[1], autocommit=True) as connection:
        connection.execute("create extension scylla")
    queue = Queue(queue_name)
    ran: list[str] = []

    @queue.task(action="where")
    def where(place: str) -> None:
        ran.append(place)

    workers = [Worker(dsn, queue, name=f"worker of {queue_name}") for dsn in databases]
    thread = threading.Thread(target=run_all, args=(workers,))
    thread.start()
    clients = [Client(dsn) for dsn in databases]
    for client, place in zip(clients, ("first", "second"), strict=True):
        client.submit(queue_name, {"place": place}, action="where")
    until(lambda: sorted(ran) == ["first", "second"])
    assert clients[1].drain_worker(f"worker of {queue_name}")
    thread.join(20)
    assert not thread.is_alive()
    for client in clients:
        client.close()
    with psycopg.connect(databases[1]) as connection:  # where it can do nothing, the others stop
        connection.execute("drop extension scylla")
    with pytest.raises(IncompatibleError):
        run_all([Worker(dsn, queue) for dsn in databases])
    server.execute(f"drop database {second} with (force)")
