"""What tasks cost the server: its processors, its log, its commits, and the dead rows that they leave."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

from .server import Server


@dataclass(frozen=True)
class Cost:
    """Of a task, and what is left of all."""

    processor: float  # microseconds
    log: float  # bytes
    commits: float
    dead: float  # rows, of all tasks

    def __str__(self) -> str:
        return (
            f"{self.processor:,.0f} s of the processor a million, {self.log:,.0f} bytes of WAL and "
            f"{self.commits:.3g} commits a task, {self.dead:,.0f} dead rows"
        )


@dataclass(frozen=True)
class Mark:
    """The counters at one moment."""

    processor: float  # seconds
    log: float  # bytes
    commits: float
    dead: float

    @staticmethod
    def now(server: Server, schema: str) -> Mark:
        """Takes them. Sessions that ended just now have reported theirs."""
        time.sleep(0.1)
        counters = server.numbers(f"""
            select pg_current_wal_insert_lsn() - '0/0'::pg_lsn,
                (select xact_commit from pg_stat_database where datname = current_database()),
                (select coalesce(sum(n_dead_tup), 0) from pg_stat_user_tables where schemaname = '{schema}')""")
        return Mark(processor_time(server), *counters)

    def since(self, before: Mark, tasks: float) -> Cost:
        """What so many tasks cost."""
        each = max(tasks, 1)
        return Cost(
            (self.processor - before.processor) * 1e6 / each,
            (self.log - before.log) / each,
            (self.commits - before.commits) / each,
            self.dead,
        )


def processor_time(server: Server) -> float:
    """Seconds of processor time of the server's processes, with those that have ended; NaN of another's server."""
    if not server.data:
        return float("nan")
    postmaster = (server.data / "postmaster.pid").read_text().split()[0]
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = file.read_text().rpartition(")")[2].split()
            if file.parent.name == postmaster:
                ticks += sum(int(field) for field in fields[11:15])
            elif fields[1] == postmaster:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / 100
