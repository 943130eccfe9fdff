"""The server that is measured: one that the benchmark starts, or one that is there already."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

REPO = Path(__file__).resolve().parents[2]
PG = str(REPO / "scripts" / "pg")
DATABASE = "scylla_bench"

# Durable, room for the clients, and no checkpoint within a slice.
SETTINGS = (
    "listen_addresses = ''",
    "fsync = on",
    "synchronous_commit = on",
    "max_connections = 200",
    "shared_buffers = 512MB",
    "max_wal_size = 8GB",
    "checkpoint_timeout = 1h",
)


class BenchError(Exception):
    """A reason why something could not be measured, to be shown to the user."""


@dataclass(frozen=True)
class Server:
    """How to reach a server, and what is allowed there."""

    conninfo: str
    bin: Path | None  # of pgbench and psql; None: as found in PATH
    data: Path | None  # the data directory of the benchmark's own server; None: it is not the benchmark's

    @property
    def own(self) -> bool:
        """Whether its settings may be changed, and its processes be looked at."""
        return self.data is not None

    def program(self, name: str) -> str:
        """The path of a program of PostgreSQL's clients."""
        return str(self.bin / name) if self.bin else name

    def sql(self, text: str, *commands: str) -> str:
        """Runs statements in one session; returns what they print, columns separated by `|`."""
        done = subprocess.run(
            [self.program("psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", self.conninfo],
            check=False,
            input="\n".join([f"{text};", *(f"{command};" for command in commands)]),
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise BenchError(done.stderr.strip() or f"psql ended with status {done.returncode}")
        return done.stdout.strip()

    def numbers(self, text: str) -> list[float]:
        """The numbers of one row; NULL is NaN."""
        return [float(cell) if cell else float("nan") for cell in self.sql(text).split("|")]

    def number(self, text: str) -> float:
        """The number that a statement returns."""
        return self.numbers(text)[0]

    def settle(self) -> None:
        """Leaves nothing to PostgreSQL's housekeeping: what a slice is measured after."""
        self.sql("vacuum analyze", "checkpoint")

    def configure(self, setting: str, value: str) -> None:
        """Sets what all processes follow, without a restart. Only of the benchmark's own server."""
        self.sql(f"alter system set {setting} = '{value}'", "select pg_reload_conf()")

    def end_sessions(self) -> None:
        """Ends the other sessions of the database, for example those that pgbench left."""
        self.sql("""
            select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()""")

    def reset(self) -> None:
        """Takes back what `configure` set."""
        self.sql("alter system reset all", "select pg_reload_conf()")


def run_script(*command: str) -> str:
    """Runs one of the project's scripts; its messages go to the user."""
    done = subprocess.run(command, check=False, cwd=REPO, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command)} failed")
    return done.stdout.strip()


def home() -> Path:
    """The project's folder outside of the repository."""
    folder = Path(run_script(PG, "home"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def with_database(conninfo: str, database: str) -> str:
    """The same server, another database."""
    if "://" in conninfo:
        return urlunsplit(urlsplit(conninfo)._replace(path=f"/{database}"))
    return f"{conninfo} dbname={database}"


def server_of(lines: str, user: str = "") -> Server:
    """The server of what the scripts print for eval; no database is named."""
    words = dict(word.split("=", 1) for word in shlex.split(lines) if "=" in word)
    conninfo = f"host={words['PGHOST']} port={words['PGPORT']} user={user or words['PGUSER']}"
    return Server(conninfo, Path(words["SCYLLA_BIN"]), Path(words["SCYLLA_DATA"]))


@contextlib.contextmanager
def private(name: str, *settings: str) -> Iterator[Server]:
    """A new server in a folder of this name, removed at the end."""
    folder = str(home() / name)
    run_script(PG, "remove", folder)
    try:
        with database_of(server_of(run_script(PG, "start", folder, *SETTINGS, *settings))) as measured:
            yield measured
    finally:
        subprocess.run([PG, "remove", folder], cwd=REPO, check=False)


@contextlib.contextmanager
def started() -> Iterator[Server]:
    """The server on which the workloads are measured. One benchmark runs at a time."""
    run_script(PG, "deps")
    run_script(PG, "tree")
    with open(home() / "bench.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BenchError("another benchmark runs") from None
        os.environ["SCYLLA_NO_BUILD"] = "1"
        with private("bench") as measured:
            yield measured


@contextlib.contextmanager
def existing(conninfo: str) -> Iterator[Server]:
    """A server that is there already. The benchmark has a database of its own in it."""
    for program in ("psql", "pgbench"):
        if not shutil.which(program):
            raise BenchError(f"{program} is not in PATH: install PostgreSQL's clients")
    with database_of(Server(conninfo, None, None)) as measured:
        yield measured


@contextlib.contextmanager
def database_of(server: Server) -> Iterator[Server]:
    """A new database with the extension in it, dropped at the end."""
    maintenance = Server(with_database(server.conninfo, "postgres"), server.bin, server.data)
    maintenance.sql(f"create database {DATABASE}")
    try:
        measured = Server(with_database(server.conninfo, DATABASE), server.bin, server.data)
        measured.sql("create extension scylla")
        yield measured
    finally:
        if not server.own:
            with contextlib.suppress(BenchError):
                maintenance.sql(f"drop database {DATABASE} with (force)")
