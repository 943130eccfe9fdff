"""A private server for all tests, made by scripts/pg, and what tests do with it."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from scylla_pg import AsyncClient, Client, Queue, Worker

REPOSITORY = Path(__file__).resolve().parents[3]
TESTS = Path(__file__).resolve().parent


class Server:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._pg("start", "scylla.board_size = 4096", "fsync = off", "max_worker_processes = 20")
        self.environment = self._environment()
        self.dsn = " ".join(
            f"{name}={self.environment['PG' + variable]}"
            for name, variable in {
                "host": "HOST",
                "port": "PORT",
                "user": "USER",
                "dbname": "DATABASE",
            }.items()
        )
        self.execute("create extension scylla")

    def _pg(self, command: str, *arguments: str) -> str:
        done = subprocess.run(
            [REPOSITORY / "scripts/pg", command, self.folder, *arguments],
            env={**os.environ, "SCYLLA_NO_BUILD": "1"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _environment(self) -> dict[str, str]:
        words = shlex.split(self._pg("env"))
        return dict(word.split("=", 1) for word in words if "=" in word)

    def stop(self, mode: str = "immediate") -> None:
        self._pg("stop", mode)

    def start(self) -> None:
        self._pg("restart")  # on the same port

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """No process of the server runs."""
        postmaster = int((self.folder / "postmaster.pid").read_text().split()[0])
        os.kill(postmaster, signal.SIGSTOP)  # no more children from here on
        stopped = [postmaster]
        try:
            for status in Path("/proc").glob("[0-9]*/status"):
                with suppress(ProcessLookupError, FileNotFoundError):  # it has ended
                    if f"\nPPid:\t{postmaster}\n" in status.read_text():
                        child = int(status.parent.name)
                        os.kill(child, signal.SIGSTOP)
                        stopped.append(child)
            yield
        finally:
            for pid in stopped:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def remove(self) -> None:
        self._pg("remove")

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn, autocommit=True, **options)

    def execute(self, sql: str, *params: Any) -> list[dict[str, Any]]:
        with self.connect(row_factory=dict_row) as connection:
            cursor = connection.execute(sql, params or None)
            return cursor.fetchall() if cursor.description else []

    def value(self, sql: str, *params: Any) -> Any:
        rows = self.execute(sql, *params)
        return next(iter(rows[0].values())) if rows else None

    def statuses(self, queue: str) -> dict[str, int]:
        """How many tasks of the queue have which status."""
        rows = self.execute(
            "select status, count(*) from scylla.tasks where queue = %s group by 1", queue
        )
        return {row["status"]: row["count"] for row in rows}

    def most_leases(self, queue: str) -> int:
        """How many tasks of the queue were owned at once, at most; each is completed, at once.

        From their history: `statuses` looks at the board in pieces, not at one moment.
        """
        return self.value(
            """
            select max(leases) from (
                select sum(change) over (order by time, change) as leases from scylla.tasks,
                    lateral (values
                        ((history -> -1 ->> 'time')::timestamptz, 1), (updated, -1)
                    ) as at (time, change)
                where queue = %s and status = 'completed' and tries = 1) as counted""",
            queue,
        )


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="scylla-python.", dir="/var/tmp"))
    folder.chmod(0o755)
    made = None
    try:
        made = Server(folder / "server")
        yield made
    finally:
        if made is not None:
            made.remove()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def queue_name() -> str:
    return f"q-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.dsn) as made:
        yield made


@pytest.fixture
def aclient(server: Server) -> AsyncClient:
    return AsyncClient(server.dsn)


@pytest.fixture
def queue(queue_name: str, client: Client) -> Queue:
    return Queue(queue_name, client=client)


def until(condition: Callable[[], Any], seconds: float = 20.0, what: str = "") -> Any:
    """Waits until the condition gives something that is true, and returns that."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, what or f"not within {seconds} s"
        time.sleep(0.005)


@contextmanager
def serving(*workers: Worker) -> Iterator[Worker]:
    """Runs workers in threads of their own, and drains them at the end."""
    errors: list[BaseException] = []

    def run(worker: Worker) -> None:
        try:
            worker.run()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        yield workers[0]
    finally:
        for worker, thread in zip(workers, threads, strict=True):
            while thread.is_alive():
                worker.stop()
                thread.join(0.5)
    assert not errors, errors


class Program:
    """A worker in a process: tests/program.py."""

    def __init__(self, server: Server, queue: str, log: Path, **options: Any) -> None:
        self.log = log
        words = [f"{name}={value}" for name, value in options.items()]
        self.process = subprocess.Popen(
            [sys.executable, TESTS / "program.py", server.dsn, queue, log, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def said(self, word: str) -> Callable[[], bool]:
        return lambda: any(word in line for line in self.lines())

    def end(self, seconds: float = 30) -> int:
        try:
            return self.process.wait(seconds)
        finally:
            self.process.kill()


@pytest.fixture
def program(server: Server, queue_name: str, tmp_path: Path) -> Iterator[Callable[..., Program]]:
    made: list[Program] = []

    def start(**options: Any) -> Program:
        made.append(Program(server, queue_name, tmp_path / f"log{len(made)}", **options))
        return made[-1]

    yield start
    for one in made:
        if one.process.poll() is None:
            one.process.kill()
        output, _ = one.process.communicate()
        print(output)  # for the report of a test that failed
