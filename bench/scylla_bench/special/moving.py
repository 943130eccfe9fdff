"""Moving in: a queue of pgmq, and tasks that come from an outbox."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from .. import pgbench
from ..bench import Bench
from ..pgbench import Load, percentile
from ..results import Row
from ..server import REPO, BenchError, Server, with_database
from . import Special, at_least, at_most

APPLICATION = "scylla_bench_app"
MANIFEST = REPO / "tools" / "scylla-pg" / "Cargo.toml"


def build() -> Path:
    """Compiles scylla-pg."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target")) / "tools"
    command = ["cargo", "build", "-q", "--locked", "--release", f"--manifest-path={MANIFEST}"]
    if subprocess.run([*command, "--target-dir", str(target)], check=False).returncode != 0:
        raise BenchError("scylla-pg could not be built")
    return target / "release" / "scylla-pg"


@contextlib.contextmanager
def application(bench: Bench, program: Path) -> Iterator[Server]:
    """A database with an outbox, on the same server."""
    server = bench.server
    maintenance = Server(with_database(server.conninfo, "postgres"), server.bin, server.data)
    maintenance.sql(f"create database {APPLICATION}")
    try:
        app = Server(with_database(server.conninfo, APPLICATION), server.bin, server.data)
        outbox = subprocess.run([program, "relay", "--print-sql"], check=True, capture_output=True, text=True)
        app.sql(outbox.stdout)
        yield app
    finally:
        maintenance.sql(f"drop database {APPLICATION} with (force)")


@contextlib.contextmanager
def relay(bench: Bench, program: Path, app: Server) -> Iterator[subprocess.Popen[bytes]]:
    """A relay that has compared what was there, and carries what comes."""
    command = [str(program), "relay", "-d", bench.server.conninfo, "--from", app.conninfo, "--keep", "600"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        try:
            app.sql("select scylla.submit('bench')")
            until(bench, 1, process)
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()


def until(bench: Bench, number: int, process: subprocess.Popen[bytes]) -> None:
    """Waits for so many tasks in all."""
    carried = "select count(*) from scylla_relay.carried_outbox"
    there = "select to_regclass('scylla_relay.carried_outbox') is not null"
    while bench.server.sql(there) != "t" or bench.server.number(carried) < number:
        if process.poll() is not None:
            raise BenchError("the relay ended")
        time.sleep(0.02)


def backlog(bench: Bench, program: Path, app: Server, number: int) -> float:
    """Tasks per second that a relay carries which has fallen behind by so many."""
    with relay(bench, program, app) as process:
        process.send_signal(signal.SIGSTOP)
        pgbench.run(app, Load("scylla/submit-many", 2, transactions=number // 2000, define={"size": 1000}))
        bench.server.settle()
        begun = time.monotonic()
        process.send_signal(signal.SIGCONT)
        until(bench, number + 1, process)
        return number / (time.monotonic() - begun)


def carry(bench: Bench, special: Special) -> Iterator[Row]:
    """A backlog, and then 500 tasks per second to workers that wait."""
    program = build()
    number, seconds = bench.scale(200_000, 20_000), bench.scale(20, 4)
    rates = []
    for at in range(bench.options.rounds):
        bench.progress.step(f"round {at + 1} of {bench.options.rounds}")
        with application(bench, program) as app:
            rates.append(backlog(bench, program, app, number))
        bench.systems.empty()
        bench.server.sql("drop schema scylla_relay cascade")
    yield at_least(special.rates("a backlog", rates, note=f"of {number:,}, submitted by 1,000"), 20_000)

    bench.progress.step("500 tasks per second")
    with application(bench, program) as app, relay(bench, program, app):
        with bench.background("scylla/wait", 8, seconds=seconds + 3, define={"queue": "paced"}) as workers:
            pgbench.run(app, Load("scylla/submit-1", 4, seconds=seconds, rate=500, define={"queue": "paced"}))
            workers.result()
        submitted = times(app, "select id, extract(epoch from submitted) from scylla.outbox where queue = 'paced'")
        there = times(bench.server, "select id, extract(epoch from created) from scylla.finished")
        owned = times(bench.server, "select id, extract(epoch from owned_at) from scylla.finished")
    bench.server.sql("drop schema scylla_relay cascade")
    row, p99 = lateness(special, "submitted to carried", submitted, there)
    yield at_most(row, 50, p99, "p99 ")
    yield lateness(special, "submitted to owned", submitted, owned)[0]


def lateness(special: Special, side: str, begun: dict[str, float], ended: dict[str, float]) -> tuple[Row, float]:
    """A row with the median of what passed for each task, and the 99th percentile."""
    late = sorted(1000 * (ended[task] - at) for task, at in begun.items() if task in ended)
    p50, p99 = percentile(late, 0.5), percentile(late, 0.99)
    note = f"p50; p99 {p99:.2f} ms, longest {late[-1]:.1f} ms, of {len(begun):,}"
    if len(late) < len(begun):
        note += f"; {len(begun) - len(late)} were left over"
    return special.row(side, p50, "ms", note=note), p99


def times(server: Server, query: str) -> dict[str, float]:
    """A time for each task."""
    return {task: float(at) for task, _, at in (row.partition("|") for row in server.sql(query).splitlines())}


# ---- a queue of pgmq ----

MOVE = "select scylla.import_pgmq_queue('moved')"

# A third of them is hidden, and was read before.
FILL = """
select pgmq.create('moved');
insert into pgmq.q_moved (read_ct, vt, message, headers)
select (n % 3 = 0)::int, now() + (n % 3 = 0)::int * interval '1 h', jsonb_build_object('n', n), '{"h": 1}'
from generate_series(1, @NUMBER@) n"""

LOOK = """
select count(*), count(distinct message), sum(read_ct), count(*) filter (where vt > now()), max(msg_id)
from pgmq.q_moved"""


def move(bench: Bench, special: Special) -> Iterator[Row]:
    """All messages in one call, after one that was ended in its midst."""
    number, server = bench.scale(1_000_000, 50_000), bench.server
    bench.systems.get("pgmq")
    server.sql(FILL.replace("@NUMBER@", str(number)))
    server.settle()
    before = server.sql(LOOK)
    bench.progress.step("a call that is interrupted")
    interrupt(bench, number / 500_000)
    if server.sql(LOOK) != before:
        raise BenchError("an interrupted call has moved messages")
    bench.progress.step("all messages")
    begun = time.monotonic()
    moved = server.number(MOVE)
    seconds = time.monotonic() - begun
    bench.progress.step("comparing")
    server.sql("drop schema pgmq cascade", "select scylla.enable_pgmq_api()")
    after = server.sql(LOOK)
    server.sql("select scylla.disable_pgmq_api()")
    bench.systems.forget("pgmq")
    if moved != number or after != before:
        raise BenchError(f"{moved:,.0f} messages were moved: {after}, not {before}")
    row = special.row(
        "import_pgmq_queue", seconds, "s", note=f"{number:,} messages: {number / seconds:,.0f} per second"
    )
    yield at_most(row, 60)


def interrupt(bench: Bench, seconds: float) -> None:
    """Ends a session that has moved messages for so long."""
    server = bench.server
    command = [server.program("psql"), "-XqAt", "-d", server.conninfo, "-c", MOVE]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        time.sleep(seconds)
        if process.poll() is not None:
            raise BenchError("the call ended before it was interrupted")
        server.sql(
            "select pg_terminate_backend(pid, 20000) from pg_stat_activity"
            f" where query = $sql${MOVE}$sql$ and pid <> pg_backend_pid()"
        )
