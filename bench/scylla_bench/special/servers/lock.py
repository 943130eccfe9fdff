"""What runs under the board's lock, counted by callgrind, and how far many cores get with it, by a simulation.

Counts of instructions are the same in each run, whatever else the machine does.
"""

from __future__ import annotations

import contextlib
import heapq
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...bench import Bench
from ...results import Row
from ...server import PG, BenchError, Server, run_script
from .. import Special, at_least
from .router import superuser_of

WRAPPER = """#!/bin/sh
case " $* " in
*' -C '* | *' -V '* | *' --boot '* | *' --single '*) exec "{bin}/postgres.real" "$@" ;;
esac
exec valgrind --tool=callgrind --trace-children=yes --cache-sim=yes --collect-atstart=no \\
  '--toggle-collect=*lock_board*' --callgrind-out-file="{out}/%p" --log-file=/dev/null \\
  "{bin}/postgres.real" "$@"
"""

FILL = "select cardinality(scylla.submit_many('{queue}', array_fill('1'::jsonb, array[{tasks}])))"
SUBMIT = "select scylla.submit('{queue}')"
SUBMIT_MANY = "select count(*) from scylla.submit_many('{queue}', array_fill('1'::jsonb, array[{size}]))"
WORK = """
select id, token from scylla.own_tasks('w', '{queue}', 1) \\gset
select scylla.return_task(:'id', :'token')"""
WORK_MANY = """
select array_agg(id) as ids, array_agg(token) as tokens from scylla.own_tasks('w', '{queue}', {size}) \\gset
select cardinality(scylla.return_tasks(:'ids', :'tokens'))"""


@dataclass(frozen=True)
class Cost:
    """Of a task, under the lock."""

    instructions: float
    misses: float  # lines of memory that were not in the first cache: on many cores, another one has them


@dataclass(frozen=True)
class Batch:
    """A way to submit, own and return, and the server's processor time of a task, the lock included."""

    size: int
    submit: str
    work: str
    microseconds: float  # docs/internals/performance.md


BATCHES = (
    Batch(1, SUBMIT, WORK, 99 + 182),
    Batch(100, SUBMIT_MANY, WORK_MANY, 6.4 + 11.7),
    Batch(1000, SUBMIT_MANY, WORK_MANY, 6.4 + 11.8),
)
AT_ONCE = 64  # moves of one hold
PER_SECOND = 500_000  # tasks, that the board should not be the bound of
CORES = (1, 2, 4, 8, 16, 32, 64)
INSTRUCTION = 0.125e-9  # s, under the lock on the two cores here, their misses of the first cache included
TRANSFER = 50e-9  # s: a line of memory from the cache of another core of the same socket


@contextlib.contextmanager
def counted() -> Iterator[tuple[Server, Path]]:
    """A server under callgrind, and the folder to which each process writes its counts as it ends."""
    run_script(PG, "deps", "valgrind")
    tree = Path(run_script(PG, "tree"))
    extra = Path(tempfile.mkdtemp(prefix="scylla-bench.", dir="/var/tmp"))
    try:
        extra.chmod(0o755)
        out = extra / "counts"
        out.mkdir()
        out.chmod(0o1777)
        # hard links: the copy costs no space, and only the program's place is another
        subprocess.run(["cp", "-al", tree, extra], check=True)
        program = next((extra / tree.name).glob("lib/postgresql/*/bin/postgres"))
        program.rename(program.with_name("postgres.real"))
        program.write_text(WRAPPER.format(bin=program.parent, out=out))
        program.chmod(0o755)
        started = ["env", f"SCYLLA_HOME={extra}", "SCYLLA_NO_BUILD=1", PG, "start", str(extra / "data")]
        lines = run_script(*started, "listen_addresses = ''", "autovacuum = off", "jit = off", "fsync = off")
        server = superuser_of(lines)
        try:
            server.sql("create extension scylla")
            yield server, out
        finally:
            run_script("env", f"SCYLLA_HOME={extra}", PG, "remove", str(extra / "data"))
    finally:
        shutil.rmtree(extra, ignore_errors=True)


def counts(server: Server, out: Path, *commands: str) -> Cost:
    """What a session with these commands ran under the lock."""
    pid = server.sql("select pg_backend_pid()", *commands).splitlines()[0]
    file = out / pid
    for _ in range(600):
        found = re.search(r"^(?:totals|summary): (.+)$", file.read_text(), re.MULTILINE) if file.exists() else None
        if found:
            events = [int(word) for word in found[1].split()] + [0] * 9
            return Cost(events[0], events[4] + events[5])
        subprocess.run(["sleep", "0.1"], check=True)
    raise BenchError("callgrind wrote no counts")


def per_task(server: Server, out: Path, command: str, size: int, calls: int) -> Cost:
    """Two sessions, one with more calls: the difference is theirs, not that of the connection."""
    few, many = (counts(server, out, *[command] * number) for number in (calls, 3 * calls))
    tasks = 2 * calls * size
    return Cost((many.instructions - few.instructions) / tasks, (many.misses - few.misses) / tasks)


def simulate(cores: int, outside: float, holds: list[float], tasks: int) -> float:
    """Tasks per second of so many cores that go round: work outside, then a hold; first come, first served."""
    free, done, until = 0.0, 0, 2000 * (outside + sum(holds))
    part = outside / len(holds)
    ready = [(part * core / cores, core, 0) for core in range(cores)]
    heapq.heapify(ready)
    now = 0.0
    while now < until:
        now, core, at = heapq.heappop(ready)
        free = max(free, now) + holds[at]
        following = (at + 1) % len(holds)
        done += tasks if following == 0 else 0
        heapq.heappush(ready, (free + part, core, following))
    return done / until


def lock(bench: Bench, special: Special) -> Iterator[Row]:
    """Instructions under the lock, and the rates that they allow."""
    with counted() as (server, out):
        for batch in BATCHES:
            size, calls = batch.size, bench.scale(max(1, 300 // batch.size), max(1, 60 // batch.size))
            queue = f"by-{size}"
            words = {"queue": queue, "size": size}
            costs = {}
            for what, command in (("submit", batch.submit), ("own and return", batch.work)):
                bench.progress.step(f"{what} by {size:,}")
                if what != "submit":
                    server.sql(FILL.format(queue=queue, tasks=4 * calls * size))
                cost = costs[what] = per_task(server, out, command.format(**words), size, calls)
                note = f"{cost.misses:.1f} lines of memory that were not in the first cache"
                yield special.row(f"{what} by {size:,}", cost.instructions, "instr.", note=note)
            yield from curve(special, batch, costs["submit"], costs["own and return"])


def curve(special: Special, batch: Batch, submit: Cost, work: Cost) -> Iterator[Row]:
    """The rate of submitting, owning and returning on so many cores, if nothing but the board bounds it."""
    held = sum(cost.instructions * INSTRUCTION + cost.misses * TRANSFER for cost in (submit, work))
    outside = batch.microseconds * 1e-6 * batch.size
    holds = [held * batch.size / 3 / -(-batch.size // AT_ONCE)] * (3 * -(-batch.size // AT_ONCE))
    for cores in CORES:
        rate = simulate(cores, outside, holds, batch.size)
        row = special.row(f"by {batch.size:,}, {cores} cores", rate, point=cores, note="simulated")
        yield at_least(row, PER_SECOND) if cores == CORES[-1] and batch.size > 1 else row
    yield special.row(f"by {batch.size:,}, the lock alone", 1 / held, note=f"{held * 1e9:.0f} ns of the lock a task")
