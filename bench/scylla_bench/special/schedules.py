"""Schedules: many at once, many spread over a minute, many that are not due."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

from ..bench import Bench
from ..results import Row
from ..server import BenchError
from . import Special, at_least, at_most

INSERT = """insert into scylla.schedule
    (name, owner, schedule, queue, spec, action, priority, time_zone, misfire, overlap, next_run)
select '{queue}-' || n, (select oid from pg_roles where rolname = current_user), '{schedule}', '{queue}',
    '{{"n": 1}}', '', 0, 'UTC', 'once', 'allow', {next_run}
from generate_series(1, {number}) n"""


def register(bench: Bench, number: int, queue: str, schedule: str, next_run: str) -> None:
    """Adds schedules; `next_run` is SQL of their number n."""
    bench.server.sql(
        INSERT.format(number=number, queue=queue, schedule=schedule, next_run=next_run),
        "vacuum (analyze) scylla.schedule",
    )


def forget(bench: Bench, queue: str) -> None:
    """Deletes a queue's schedules and their runs."""
    bench.server.sql(
        f"delete from scylla.schedule where queue = '{queue}'",
        f"delete from scylla.task where queue = '{queue}'",
        "vacuum scylla.schedule",
        "select scylla.refresh()",
    )


def together(bench: Bench, special: Special) -> Iterator[Row]:
    """Schedules that are due at the same time."""
    number, server = bench.scale(100_000, 10_000), bench.server
    server.settle()
    register(bench, number, "due", "every 1 hour", "date_trunc('second', clock_timestamp()) + interval '5 s'")
    server.sql("select scylla.refresh()")
    while server.number("select sum(fired) from scylla.schedule where queue = 'due'") < number:
        time.sleep(0.5)
    keys, rate = server.numbers("""
        select count(distinct key), count(*) / extract(epoch from max(created) - min(created))
        from scylla.task where queue = 'due'""")
    if keys != number:
        raise BenchError(f"{keys:,.0f} of {number:,} schedules have fired")
    yield at_least(special.row("scylla", rate, "runs/s", note=f"{number:,} schedules, all due at once"), 20_000)
    forget(bench, "due")


def spread(bench: Bench, special: Special) -> Iterator[Row]:
    """Schedules with a run each minute, spread over it: how late the runs are submitted."""
    number, period, server = bench.scale(100_000, 5_000), bench.scale(60, 10), bench.server
    server.settle()
    start = f"to_timestamp(ceil(extract(epoch from clock_timestamp()) / {period} + 0.3) * {period})"
    step = f"interval '1 s' * {period} / {number}"
    register(bench, number, "spread", f"every {period} seconds", f"{start} + {step} * n")
    # each keeps its place within the minute
    server.sql("update scylla.schedule set starts_at = next_run where queue = 'spread'")
    server.sql("vacuum (analyze) scylla.schedule", "select scylla.refresh()")
    bench.progress.step(f"{2 * period + 15} s of waiting")
    time.sleep(2 * period + 15)
    runs, p50, p99, longest = server.numbers("""
        select count(*), p[1], p[2], p[3]
        from (select percentile_cont('{0.5, 0.99, 1}'::float8[]) within group
                  (order by extract(epoch from created - split_part(key, '@', 2)::timestamptz)::float8 * 1000) as p
              from scylla.task where queue = 'spread') f, scylla.task where queue = 'spread'
        group by p""")
    note = f"the latest; p50 {p50:.0f}, p99 {p99:.0f} ms, of {runs:,.0f} runs of {number:,} schedules"
    yield at_most(special.row("expected to submitted", longest, "ms", note=note), 1_000)
    forget(bench, "spread")


def registered(bench: Bench, special: Special) -> Iterator[Row]:
    """The scheduler fires one schedule a second, with and without a million others."""
    number, seconds = bench.scale(1_000_000, 50_000), bench.scale(30, 4)
    bench.server.settle()
    register(bench, 1, "tick", "every 1 second", "clock_timestamp()")
    bench.server.sql("select scylla.refresh()", "select pg_sleep(3)")
    before = processor_time(bench, seconds)
    register(bench, number, "later", "0 0 1 1 *", "'2100-01-01'::timestamptz")
    bench.server.sql("select scylla.refresh()", "select pg_sleep(3)")
    after = processor_time(bench, seconds)
    memory = re.search(r"RssAnon:\s+(\d+)", (scheduler(bench) / "status").read_text())
    note = (
        f"the scheduler's processor time in {seconds} s; {before:.0f} ms without {number:,} schedules that are not due"
    )
    note += f"; its memory: {int(memory[1]):,} kB" if memory else ""
    yield at_most(special.row("scylla", after, "ms", note=note), before + 300)
    forget(bench, "tick")
    forget(bench, "later")


def scheduler(bench: Bench) -> Path:
    """What the kernel knows of the scheduler's process."""
    pid = bench.server.sql("""
        select pid from pg_stat_activity
        where backend_type = 'scylla scheduler' and datname = current_database()""")
    return Path("/proc") / pid


def processor_time(bench: Bench, seconds: int) -> float:
    """Milliseconds of processor time that the scheduler takes within so many seconds."""

    def ticks() -> int:
        fields = (scheduler(bench) / "stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before = ticks()
    time.sleep(seconds)
    return (ticks() - before) * 10.0
