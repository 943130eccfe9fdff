"""Waking: how soon a worker learns of a task."""

from __future__ import annotations

from collections.abc import Iterator

from ..bench import Bench
from ..pgbench import drive
from ..results import Row
from . import Special, at_most

WAYS = (  # the driver's word, the side, the most for p50 and p99 in ms
    ("wake-work", "to the return of wait_for_work", 2, 20),
    ("wake-notify", "to the notification", None, 50),
)


def wake(bench: Bench, special: Special) -> Iterator[Row]:
    """From sending `submit`, its commit included."""
    number = bench.scale(1_000, 200)
    for way, side, most50, most99 in WAYS:
        bench.progress.step(side)
        bench.server.settle()
        p50, p99, longest = drive(bench.server, way, number)
        row = special.row(side, p50, "ms", note=f"p50; p99 {p99:.2f} ms, longest {longest:.2f} ms of {number:,}")
        if most50:
            at_most(row, most50, p50, "p50 ")
        yield at_most(row, most99, p99, "p99 ")


def cancel(bench: Bench, special: Special) -> Iterator[Row]:
    """From sending `cancel`, its commit included, until its worker's `wait_for_event` returns."""
    number = bench.scale(1_000, 200)
    bench.server.settle()
    p50, p99, longest = drive(bench.server, "wake-cancel", number)
    note = f"p50; p99 {p99:.2f} ms, longest {longest:.2f} ms of {number:,}"
    yield at_most(special.row("to the return of wait_for_event", p50, "ms", note=note), 10, p99, "p99 ")


def ready_to_owned(bench: Bench, special: Special) -> Iterator[Row]:
    """500 tasks per second, and workers that wait in the server."""
    seconds = bench.scale(20, 4)
    bench.server.settle()
    with bench.background("scylla/wait", 8, seconds=seconds + 3, define={"queue": "paced"}) as workers:
        bench.load("scylla/submit-1", 4, seconds=seconds, rate=500, define={"queue": "paced"})
        workers.result()
    number, p50, p99, longest, left = bench.server.numbers("""
        select count(*), p[1], p[2], p[3], (select count(*) from scylla.task)
        from (select percentile_cont('{0.5, 0.99, 1}'::float8[]) within group
                  (order by extract(epoch from owned_at - created)::float8 * 1000) as p
              from scylla.finished) f, scylla.finished
        group by p""")
    note = f"p50; p99 {p99:.2f} ms, longest {longest:.1f} ms, of {number:,.0f}"
    if left:
        note += f"; {left:.0f} were left over"
    row = special.row("submitted to owned", p50, "ms", note=note)
    at_most(row, 1, p50, "p50 ")
    yield at_most(row, 3, p99, "p99 ")
