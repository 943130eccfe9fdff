"""Heartbeats: how fast leases are extended, and what owning and extending write."""

from __future__ import annotations

import time
from collections.abc import Iterator

from ..bench import Bench
from ..compare import judge, ratio_of
from ..results import Row
from ..server import BenchError
from ..systems import FLOOR
from . import Special, at_most

OWN = """insert into {held} select coalesce((select max(n) from {held}), 0) + row_number() over (), id, token
    from {own}('bench', 'bench', {number}{more})"""
BATCH = 10_000
SIZE = 1000  # leases of a statement
COUNTED = 10_000  # calls whose writes are counted


def take_leases(bench: Bench, leases: int) -> None:
    """Owns so many tasks of scylla, and so many jobs of the plain queue."""
    bench.systems.get(FLOOR.name)
    bench.systems.get("plain")
    bench.submit(leases + 4 * COUNTED)
    bench.load("plain/submit-many", 2, transactions=leases // 2000 + 1, define={"size": 1000})
    bench.server.sql("truncate reference.held", "truncate plain.held")
    more = ", timeout => '1 day'"
    for _ in range(leases // BATCH):
        bench.server.sql(OWN.format(held="reference.held", own="scylla.own_tasks", number=BATCH, more=more))
        bench.server.sql(OWN.format(held="plain.held", own="plain.own", number=BATCH, more=""))
    bench.server.settle()


def heartbeat(bench: Bench, special: Special) -> Iterator[Row]:
    """Extends, against a trivial function call and the plain queue's UPDATE; then counts the writes."""
    leases = bench.scale(100_000, 10_000)
    take_leases(bench, leases)
    seconds, define = bench.options.seconds, {"leases": leases, "size": SIZE}
    sides = {"scylla": "scylla/extend-1", "a trivial call": "floor/extend-1", "plain": "plain/extend-1"}
    rates: dict[str, list[float]] = {side: [] for side in sides}
    many = []
    for number in range(bench.options.rounds):
        for side, script in sides.items():
            bench.progress.step(f"round {number + 1}, {side}")
            rates[side].append(bench.load(script, 16, seconds=seconds, define=define).tps)
        many.append(bench.load("scylla/extend-many", 4, seconds=seconds, define=define).tps * SIZE)
    yield special.rates("scylla", rates["scylla"], "leases/s", note=f"{leases:,} leases, extended one at a time")
    for side, target in (("a trivial call", 0.6), ("plain", None)):
        row = special.rates(side, rates[side], "calls/s")
        judge(row, ratio_of(rates["scylla"], rates[side]), target)
        yield row
    yield special.rates(f"scylla, by {SIZE:,}", many, "leases/s")
    if bench.server.own:
        yield from writes(bench, special, leases)


def by_hundred(bench: Bench, special: Special) -> Iterator[Row]:
    """`heartbeat` of 100 leases, against `extend_tasks` of as many."""
    leases = bench.scale(100_000, 10_000)
    take_leases(bench, leases)
    seconds, define = bench.options.seconds, {"leases": leases, "size": 100}
    sides = {"heartbeat": "scylla/heartbeat-many", "extend_tasks": "scylla/extend-many"}
    rates: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(bench.options.rounds):
        for side, script in sides.items():
            bench.progress.step(f"round {number + 1}, {side}")
            rates[side].append(bench.load(script, 4, seconds=seconds, define=define).tps * 100)
    yield special.rates("heartbeat", rates["heartbeat"], "leases/s")
    row = special.rates("extend_tasks", rates["extend_tasks"], "leases/s")
    judge(row, ratio_of(rates["heartbeat"], rates["extend_tasks"]), 0.95)
    yield row


def writes(bench: Bench, special: Special, leases: int) -> Iterator[Row]:
    """Only the workers write: autovacuum is off, and the scheduler writes no leases."""
    server = bench.server
    try:
        server.configure("autovacuum", "off")
        server.configure("scylla.persist_leases_after", "1 h")
        server.sql("vacuum analyze", "checkpoint")
        wait_for_quiet(bench)
        for what, script in (("own", "scylla/own"), ("extend", "scylla/extend-1")):
            # the scheduler may write something of its own meanwhile
            for _ in range(3):
                row = count_writes(bench, special, what, script, leases)
                if row.met:
                    break
            yield row
    finally:
        server.reset()


def wait_for_quiet(bench: Bench) -> None:
    """Waits until the scheduler has written what it had begun: a second without a transaction id."""
    state, last = "select pg_snapshot_xmax(pg_current_snapshot())", ""
    for _ in range(60):
        now = bench.server.sql(state)
        if now == last:
            return
        last = now
        time.sleep(2)
    raise BenchError("the server is never idle")


def count_writes(bench: Bench, special: Special, what: str, script: str, leases: int) -> Row:
    """The transaction ids and the WAL of many calls."""
    server = bench.server
    state = "select pg_current_wal_insert_lsn(), pg_snapshot_xmax(pg_current_snapshot())"
    start, first = server.sql(state).split("|")
    bench.load(script, 10, transactions=COUNTED // 10, define={"leases": leases})
    end, last = server.sql(state).split("|")
    size = server.number(f"select pg_wal_lsn_diff('{end}', '{start}')") / COUNTED
    kinds = wal_by_kind(bench, start, end) if end != start else "no WAL"
    ids = int(last) - int(first)
    row = special.row(
        f"what one {what} writes", size, "bytes", note=f"{COUNTED:,} calls: {ids} transaction ids; {kinds}"
    )
    return at_most(row, 0, ids, "ids ")


def wal_by_kind(bench: Bench, start: str, end: str) -> str:
    """The records between two positions, if pg_walinspect can be loaded."""
    try:
        bench.server.sql("create extension if not exists pg_walinspect")
    except BenchError:
        return "WAL of unknown kinds"
    # what is not on disk yet cannot be read
    bench.server.sql("checkpoint")
    return bench.server.sql(f"""
        select string_agg(format('%s %s %s: %s bytes', number, resource_manager, record_type, bytes), ', '
            order by bytes desc)
        from (select resource_manager, record_type, count(*) as number, sum(record_length) as bytes
              from pg_get_wal_records_info('{start}', '{end}') group by 1, 2) r""")
