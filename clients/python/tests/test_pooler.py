"""Through PgBouncer in transaction mode, which before 1.21 knows no prepared statements."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator

import psycopg
import pytest
from conftest import REPOSITORY, Server, serving, until

from scylla_pg import Client, Queue, Stopped, Worker

POOLER = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")


@pytest.fixture
def pooled(server: Server) -> Iterator[str]:
    known = psycopg.conninfo.conninfo_to_dict(server.dsn)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = server.folder.parent / f"pooler-{port}"
    folder.mkdir()
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"""
[databases]
* = host=127.0.0.1 port={known["port"]} user={known["user"]}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 6
ignore_startup_parameters = extra_float_digits
"""
    )
    process = subprocess.Popen(
        [REPOSITORY / "scripts/pg", "run-as-server", POOLER, config],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # it is a child of the script
    )
    dsn = f"host=127.0.0.1 port={port} user={known['user']} dbname={known['dbname']}"

    def reached() -> bool:
        assert process.poll() is None
        try:
            psycopg.connect(dsn).close()
        except psycopg.OperationalError:
            return False
        return True

    try:
        until(reached)
        yield dsn
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate(timeout=20)
        print(output.decode())


@pytest.mark.skipif(POOLER is None, reason="there is no pgbouncer")
def test_pgbouncer(server: Server, pooled: str, queue_name: str) -> None:
    client = Client(pooled)
    queue = Queue(queue_name, client=client)
    stopped: list[str] = []

    @queue.task
    async def work(n: int) -> int:
        await asyncio.sleep(0.002)
        return n

    @queue.task
    async def sleep() -> None:
        try:
            await asyncio.sleep(60)
        except Stopped as cause:
            stopped.append(type(cause).__name__)
            raise

    client.submit_many(queue_name, [{"n": n} for n in range(1000)], action="work")
    worker = Worker(pooled, queue, concurrency=8, lease=5)
    with serving(worker):
        until(lambda: worker.stats["completed"] == 1000, 60)
        id = work.using(post_result=True).submit(n=7)
        assert client.result(id) == 7
        id = sleep.submit()
        until(lambda: client.task(id)["status"] == "running")
        client.cancel(id)
        until(lambda: stopped)
    assert stopped == ["Cancelled"]
    assert worker.stats == {"completed": 1001, "cancelled": 1}
    client.close()
