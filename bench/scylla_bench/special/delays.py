"""Delays: a backlog that falls due at once, and messages in time."""

from __future__ import annotations

import time
from collections.abc import Iterator

from ..bench import Bench
from ..results import Row
from ..server import BenchError
from . import Special, at_least, at_most


def backlog(bench: Bench, special: Special) -> Iterator[Row]:
    """All fall due at once: the scheduler learns an hour earlier that they must fire."""
    number, server = bench.scale(1_000_000, 50_000), bench.server
    bench.submit(number, "scylla/submit-later", queue="backlog")
    server.settle()
    try:
        server.configure("scylla.timing_advance", "1h")
        while server.sql("select exists (select from scylla.task where due is not null)") == "t":
            time.sleep(0.5)
    finally:
        server.reset()
    fired, rate = server.numbers("""
        select count(*), count(*) / extract(epoch from max(updated) - min(updated))
        from scylla.task where queue = 'backlog' and ready""")
    if fired < number:
        raise BenchError(f"{fired:,.0f} of {number:,} have fired")
    yield at_least(special.row("scylla", rate, note=f"{fired:,.0f} waiting tasks, all due at once, fire"), 20_000)


def fire(bench: Bench, special: Special) -> Iterator[Row]:
    """1,000 messages per second, due 3 to 10 s later. A consumer asks about every millisecond."""
    seconds, rate = bench.scale(30, 4), 1_000
    bench.server.settle()
    with bench.background("scylla/consume", 1, seconds=seconds + 12) as consumer:
        sent = bench.load("scylla/message", 4, seconds=seconds, rate=rate)
        consumer.result()
    # An ownership that was open when the message fired has the time of its beginning.
    number, p50, p99, p999, longest = bench.server.numbers("""
        select count(*), p[1], p[2], p[3], p[4]
        from (select percentile_cont('{0.5, 0.99, 0.999, 1}'::float8[]) within group
                  (order by greatest(extract(epoch from owned_at - run_at)::float8 * 1000, 0)) as p
              from scylla.finished where queue = 'fire') f, scylla.finished where queue = 'fire'
        group by p""")
    if number != sent.transactions:
        raise BenchError(f"{number:,.0f} of {sent.transactions:,} messages were consumed")
    note = f"p99.9 after the deadline; p50 {p50:.1f}, p99 {p99:.1f}, the latest {longest:.1f} ms, of {number:,.0f}"
    yield at_most(special.row("deadline to owned", p999, "ms", note=note), 20)
