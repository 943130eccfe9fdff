"""The server goes, comes back, closes, or ends connections: no task is lost, none counts twice."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from typing import Any

import psycopg
import pytest
from conftest import Server, serving, until

from scylla_pg import Client, IncompatibleError, Queue, Task, Worker


def connections(server: Server, worker: Worker) -> list[int]:
    # the server cuts the name at 63 bytes
    name = f"scylla-pg python/0.1.0 {worker.name}"[:63]
    rows = server.execute("select pid from pg_stat_activity where application_name = %s", name)
    return [row["pid"] for row in rows]


def accounted(
    server: Server, queue: Queue, workers: list[Worker], ran: Counter[str], crashes: int = 0
) -> None:
    """Each task has completed, was counted once, and ran once for each ownership at most.

    A crash of the server forgets the leases of less than a second, and their history.
    """
    rows = server.execute(
        "select id, tries, status, history from scylla.tasks where queue = %s", queue.name
    )
    assert Counter(row["status"] for row in rows) == {"completed": len(rows)}
    for row in rows:
        begun = sum(entry["_typ"] == "TaskAssignment" for entry in row["history"])
        assert 1 <= ran[str(row["id"])] <= begun + crashes, row
    assert sum(worker.stats["completed"] for worker in workers) == len(rows)


def test_connections_are_one_and_at_most_four(server: Server, queue: Queue, client: Client) -> None:
    @queue.task
    async def nap() -> None:
        await asyncio.sleep(0.001)

    client.submit_many(queue.name, [{}] * 20_000, action="nap")
    for concurrency, most in ((1, 2), (2, 3), (1000, 5)):
        worker = Worker(server.dsn, queue, concurrency=concurrency)
        with serving(worker):
            until(lambda worker=worker: worker.stats["completed"] > 20)
            seen = 0
            while seen < 20 and worker.stats["completed"] < 10_000:
                seen += 1
                assert len(connections(server, worker)) <= most
        until(lambda worker=worker: not connections(server, worker))


def test_every_connection_is_terminated(server: Server, queue: Queue, client: Client) -> None:
    ran: Counter[str] = Counter()

    @queue.task
    async def nap(task: Task) -> None:
        ran[str(task.id)] += 1
        await asyncio.sleep(0.02)

    client.submit_many(queue.name, [{}] * 1500, action="nap")
    worker = Worker(server.dsn, queue, concurrency=10, lease=1)
    with serving(worker):
        for share in (50, 200, 400, 600):
            until(lambda share=share: worker.stats["completed"] > share)
            for pid in connections(server, worker):
                server.execute("select pg_terminate_backend(%s)", pid)
        until(lambda: server.statuses(queue.name) == {"completed": 1500}, 60)
    accounted(server, queue, [worker], ran)


def test_two_immediate_restarts(server: Server, queue: Queue, client: Client) -> None:
    ran: Counter[str] = Counter()

    @queue.task
    async def nap(task: Task) -> None:
        ran[str(task.id)] += 1
        await asyncio.sleep(0.02)

    @queue.task
    def nap_in_a_thread(task: Task) -> None:
        ran[str(task.id)] += 1
        time.sleep(0.02)

    total = 2000
    client.submit_many(queue.name, [{}] * (total // 2), action="nap")
    client.submit_many(queue.name, [{}] * (total // 2), action="nap_in_a_thread")
    workers = [Worker(server.dsn, queue, concurrency=10, lease=2) for _ in range(2)]
    with serving(*workers):
        for share in (200, 800):
            until(lambda share=share: sum(w.stats["completed"] for w in workers) > share)
            server.stop("immediate")
            server.start()
            # a client that was there before repeats, too, and doubles nothing
            client.submit(queue.name, action="nap")
        until(lambda: server.statuses(queue.name) == {"completed": total + 2}, 60)
    accounted(server, queue, workers, ran, crashes=2)


def test_submission_is_not_doubled_when_its_answer_is_lost(
    server: Server, client: Client, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scylla_pg import client as module

    client.about()
    original, failures = module._run_all, iter([True, False, True, False, True, False])

    def lose_the_answer(connection: Any, batch: Any) -> Any:
        answers = original(connection, batch)
        if next(failures, False):
            connection.close()
            raise psycopg.OperationalError("lost")
        return answers

    monkeypatch.setattr(module, "_run_all", lose_the_answer)
    id = client.submit(queue_name)
    ids = client.submit_many(queue_name, range(15_000))
    rows = server.execute("select id from scylla.tasks where queue = %s", queue_name)
    assert {row["id"] for row in rows} == {id, *ids} and len(rows) == 15_001
    # this one cannot be repeated without a risk
    with pytest.raises(psycopg.OperationalError, match="lost"):
        client.submit_tasks([{"queue": queue_name}])


def test_lost_answer_of_a_return_counts_once(
    server: Server, queue: Queue, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scylla_pg.link import Gone, Link

    @queue.task
    async def nothing() -> None: ...

    original, lost = Link.run, 0

    async def run(self: Link, sql: str, params: Any, timeout: float | None = None) -> Any:
        nonlocal lost
        rows = await original(self, sql, params, timeout)
        if "return_many" in sql and lost < 3:
            lost += 1
            raise Gone("the answer was lost")
        return rows

    monkeypatch.setattr(Link, "run", run)
    client.submit_many(queue.name, [{}] * 50, action="nothing")
    worker = Worker(server.dsn, queue, lease=1)
    with serving(worker):
        until(lambda: server.statuses(queue.name) == {"completed": 50})
        until(lambda: sum(worker.stats.values()) >= 50)
    assert worker.stats == {"completed": 50}
    assert lost == 3


def test_closed_database(server: Server, queue: Queue, client: Client) -> None:
    @queue.task
    async def nothing() -> None: ...

    worker = Worker(server.dsn, queue, wait=0.3)
    with serving(worker):
        nothing.submit()
        until(lambda: worker.stats["completed"] == 1)
        server.execute("select scylla.open(false)")
        try:
            id = nothing.submit()
            sent = worker._wait_number
            until(lambda: worker._wait_number > sent + 2)
            assert client.task(id)["status"] == "ready"
        finally:
            server.execute("select scylla.open()")
        until(lambda: worker.stats["completed"] == 2)


def test_server_that_is_away_at_the_start(server: Server, queue: Queue, client: Client) -> None:
    @queue.task
    async def nothing() -> None: ...

    nothing.submit()
    server.stop("fast")
    worker = Worker(server.dsn, queue)
    with serving(worker):
        until(lambda: worker._loop)
        server.start()
        until(lambda: worker.stats["completed"] == 1)


def test_what_an_idle_worker_sends(server: Server, queue: Queue) -> None:
    """One statement for each wait, and nothing else."""

    @queue.task
    async def nothing() -> None: ...

    server.execute("alter system set log_line_prefix = '[%a] '")
    server.execute("alter system set log_statement = 'all'")
    server.execute("select pg_reload_conf()")
    try:
        worker = Worker(server.dsn, queue, wait=0.25, name=f"idle-{queue.name}")
        mark = f"idle-{queue.name}]"
        log = server.folder / "server.log"

        def statements() -> list[str]:
            lines = log.read_text().splitlines()
            return [
                line for line in lines if mark in line and re.search("statement:|execute", line)
            ]

        with serving(worker):
            until(lambda: len(statements()) > 12)
            first, *later = statements()
        kinds = [
            next(
                k
                for k in ("about", "heartbeat", "own_tasks", "wait_for_event", "?")
                if k in line or k == "?"
            )
            for line in (first, *later)
        ]
    finally:
        server.execute("alter system reset all")
        server.execute("select pg_reload_conf()")
    assert kinds[:3] == ["about", "heartbeat", "own_tasks"]
    assert set(kinds[3:]) == {"wait_for_event"}, kinds


def test_prepared_statements_that_a_pooler_lost(
    server: Server, queue: Queue, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scylla_pg.link import Link

    @queue.task
    async def nothing() -> None: ...

    original, dropped = Link._take, 0

    async def take(self: Link) -> Any:
        nonlocal dropped
        connection = await original(self)
        if connection._prepared._names and dropped < 2:
            dropped += 1
            # behind the back of psycopg, which goes on to believe in them
            connection.pgconn.exec_(b"deallocate all")
        return connection

    monkeypatch.setattr(Link, "_take", take)
    worker = Worker(server.dsn, queue, concurrency=1)
    with serving(worker):
        for count in range(1, 15):
            nothing.submit()
            until(lambda count=count: worker.stats["completed"] == count)
    assert worker.stats == {"completed": 14}
    assert dropped


def test_prepared_statements_have_names_of_their_own(server: Server) -> None:
    from scylla_pg.link import Link

    async def name(link: Link) -> str:
        connection = await link.open()
        for _ in range(8):
            await link.execute(connection, "select %s::int", [1], 5)
        ((found,),) = await link.execute(
            connection, "select name from pg_prepared_statements where statement ~ '::int'", [], 5
        )
        await connection.close()
        return found

    async def names() -> set[str]:
        link = Link(server.dsn, "names", 2, 5)
        return {await name(link), await name(link)}

    assert len(asyncio.run(names())) == 2


def test_database_without_scylla(server: Server, queue: Queue) -> None:
    @queue.task
    async def nothing() -> None: ...

    server.execute("create database bare")
    worker = Worker(re.sub("dbname=[^ ]+", "dbname=bare", server.dsn), queue)
    with pytest.raises(IncompatibleError, match="create extension scylla") as caught:
        worker.run()
    assert str(caught.value.__cause__) in str(caught.value)


def test_password_that_changes(server: Server, queue: Queue, client: Client) -> None:
    @queue.task
    async def nothing() -> None: ...

    asked: list[int] = []

    def conninfo() -> str:
        asked.append(1)
        return server.dsn if len(asked) > 3 else re.sub("user=[^ ]+", "user=absent", server.dsn)

    nothing.submit()
    worker = Worker(conninfo, queue)
    with serving(worker):
        until(lambda: worker.stats["completed"] == 1)
