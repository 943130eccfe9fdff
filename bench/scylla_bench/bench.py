"""What every workload is given: the server, the systems, the user's options, and where to say what runs."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from . import pgbench
from .results import Progress
from .server import BenchError, Server
from .systems import Systems


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    quick: bool = False
    seconds: int = 4  # of a slice
    rounds: int = 3
    clients: int | None = None  # of every comparison, instead of its own number
    key: str = "uuid"  # of the plain queue
    phases: tuple[int, ...] = (30, 90, 30)  # seconds before, while, and after a snapshot is held


@dataclass
class Bench:
    """One run of the benchmark."""

    server: Server
    systems: Systems
    options: Options
    progress: Progress

    def scale(self, full: int, quick: int) -> int:
        """A number of tasks, or of seconds."""
        return quick if self.options.quick else full

    def load(self, script: str | list[str], clients: int, **more: object) -> pgbench.Run:
        """Runs a script to its end."""
        return pgbench.run(self.server, pgbench.Load(script, clients, **more))  # type: ignore[arg-type]

    def background(self, script: str, clients: int, **more: object) -> pgbench.Running:
        """Runs a script while the block runs."""
        return pgbench.Running(self.server, pgbench.Load(script, clients, **more))  # type: ignore[arg-type]

    def submit(self, tasks: int, script: str = "scylla/submit-many", **define: object) -> None:
        """Submits at least so many tasks, by 1,000."""
        transactions = -(-tasks // 2000)
        self.load(script, 2, transactions=transactions, define={"size": 1000, **define})

    @contextlib.contextmanager
    def held_snapshot(self) -> Iterator[None]:
        """Another session holds a snapshot while the block runs."""
        holder = subprocess.Popen(
            [self.server.program("psql"), "-XqAt", "-d", self.server.conninfo],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert holder.stdin and holder.stdout
        try:
            holder.stdin.write("begin isolation level repeatable read; select count(*) > 0 from pg_class;\n")
            holder.stdin.flush()
            answer = holder.stdout.readline().strip()
            if answer != "t":
                raise BenchError(f"the snapshot could not be taken: {answer}")
            yield
        finally:
            holder.communicate()

    @contextlib.contextmanager
    def listeners(self, number: int = 100) -> Iterator[None]:
        """So many sessions listen to the queue `bench` while the block runs."""
        command = [str(pgbench.build_driver()), self.server.conninfo, "listen", str(number)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin and process.stdout
            try:
                if process.stdout.readline().strip() != "listening":
                    raise BenchError("the listeners did not start")
                yield
            finally:
                process.stdin.close()

    @contextlib.contextmanager
    def configured(self, queue: str, **settings: object) -> Iterator[None]:
        """A queue has these settings while the block runs."""
        given = ", ".join(f"{name} => {value}" for name, value in settings.items())
        self.server.sql(f"select scylla.configure_queue('{queue}', {given})")
        try:
            yield
        finally:
            for name in settings:
                self.server.sql(f"select scylla.reset_queue('{queue}', '{name}')")
