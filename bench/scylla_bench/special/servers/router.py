"""What the router adds to a call: four shards and a router, each call by turns with a direct connection to a shard."""

from __future__ import annotations

import contextlib
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ... import pgbench
from ...bench import Bench
from ...pgbench import Load, drive
from ...results import Row
from ...server import PG, REPO, Server, run_script, server_of, with_database
from .. import Special, at_most

SHARDS = 4
CALLS = (  # what is measured, the script, tasks of a call, calls of a round, the most that it may take against direct
    ("submit", "submit-1", 1, 2_000, None),
    ("submit_many of 100", "submit-many", 100, 300, 1.5),
    ("own and return 1", "work-1", 1, 1_000, None),
    ("own, read and return 100", "work-read", 100, 300, 1.5),
    ("the same by PL/Proxy alone", "work-proxied", 100, 300, None),
)
DIRECT = {"work-proxied": "work-read"}  # the script without a router, where it is another one
WAKE = 50  # ms, from a submission until a wait ends


def superuser_of(lines: str) -> Server:
    """The server of what the scripts print, as its superuser."""
    server = server_of(lines, "postgres")
    return replace(server, conninfo=with_database(server.conninfo, "postgres"))


@contextlib.contextmanager
def started() -> Iterator[tuple[Server, Server]]:
    """A router, and one of its shards."""
    folder = Path(tempfile.mkdtemp(prefix="scylla-bench.", dir="/var/tmp"))
    try:
        start = str(REPO / "pgrx-tests" / "router" / "start")
        router = superuser_of(run_script(start, str(folder), str(SHARDS)))
        yield router, superuser_of(run_script(PG, "env", str(folder / "shard0")))
    finally:
        for server in folder.glob("*/postmaster.pid"):
            subprocess.run([PG, "remove", str(server.parent)], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def median(server: Server, script: str, size: int, calls: int) -> float:
    """The median of a call in milliseconds, of one session."""
    if script.startswith("work"):
        fill = Load("scylla/submit-many", transactions=-(-calls * size // 1000) + 1, define={"size": 1000})
        pgbench.run(server, fill)
    load = Load(f"scylla/{script}", transactions=calls, define={"size": size}, latencies=True)
    return pgbench.run(server, load).percentile(0.5)


def cost(bench: Bench, special: Special) -> Iterator[Row]:
    """Medians of one session. Nothing waits for the disk: a commit that does adds the same to both."""
    with started() as (router, shard):
        for what, script, size, full, most in CALLS:
            direct, routed = [], []
            calls = bench.scale(full, full // 10)
            for at in range(bench.options.rounds):
                bench.progress.step(f"{what}, round {at + 1} of {bench.options.rounds}")
                direct.append(median(shard, DIRECT.get(script, script), size, calls))
                routed.append(median(router, script, size, calls))
            ratio = statistics.median(there / here for there, here in zip(routed, direct, strict=True))
            yield special.row(f"{what}, direct", statistics.median(direct), "ms", low=min(direct), high=max(direct))
            row = special.row(f"{what}, router", statistics.median(routed), "ms", low=min(routed), high=max(routed))
            row.note = f"{ratio:.2f} of direct"
            yield at_most(row, most, ratio, "× ") if most else row
        number = bench.scale(300, 50)
        for side, server in (("direct", shard), ("router", router)):
            bench.progress.step(f"wake-up, {side}")
            p50, p99, longest = drive(server, "wake-work", number)
            row = special.row(f"wake-up, {side}", p50, "ms", note=f"p50; p99 {p99:.2f} ms, longest {longest:.2f} ms")
            yield at_most(row, WAKE, p99, "p99 ") if side == "router" else row
