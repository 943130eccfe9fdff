"""What the tables cost: an old snapshot, a deep backlog, WAL, another shape, and the board's memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

from ..bench import Bench
from ..compare import Rates, Side, Slice, judge, measure, ratio_of
from ..results import Row
from . import Special

CHURN = {"scylla": (1_000_000, 20_000), "plain": (300_000, 20_000)}  # tasks, and of a quick run


def snapshot(bench: Bench, special: Special) -> Iterator[Row]:
    """Many tasks by 1,000, then a slice one at a time; with a snapshot held all the time, and without."""
    for system in CHURN:
        rates: Rates = {}
        for side, held in ((f"{system}, snapshot held", True), (system, False)):
            rates[side] = [after_churn(bench, system, held) for _ in range((bench.options.rounds + 1) // 2)]
        subject, free = rates
        yield special.rates(subject, rates[subject], note=f"one at a time, after {churn(bench, system):,} by 1,000")
        row = special.rates(free, rates[free])
        judge(row, ratio_of(rates[subject], rates[free]), 0.95 if system == "scylla" else None)
        yield row


def churn(bench: Bench, system: str) -> int:
    """How many tasks are done before the slice."""
    return bench.scale(*CHURN[system])


def after_churn(bench: Bench, system: str, held: bool) -> float:
    """One pass on empty tables."""
    bench.systems.empty()
    bench.server.settle()
    many = Slice(bench, bench.systems.get(system), Side(system, "work-many", size=1000, clients=4))
    one = Slice(bench, many.system, Side(system, "work-1"))
    block: AbstractContextManager[None] = bench.held_snapshot() if held else nullcontext()
    with block:
        for part in range(5):
            bench.progress.step(f"{system}, {'held' if held else 'no'} snapshot, part {part + 1} of 5")
            transactions = max(churn(bench, system) // 5 // 1000 // many.clients, 1)
            many.fill(many.clients * transactions)
            before = many.count()
            many.check(before, many.run(transactions=transactions))
        return one.measure()


def depth(bench: Bench, special: Special) -> Iterator[Row]:
    """The single rate with more and more tasks waiting."""
    least = 10_000
    depths = [least, 100_000] if bench.options.quick else [least, 1_000_000, 10_000_000]
    first: Rates = {}
    for tasks in depths:
        sides = tuple(Side(system, "work-1", depth=tasks) for system in ("scylla", "plain"))
        rates, _ = measure(bench, sides)
        first = first or rates
        for side in sides:
            row = special.rates(side.label, rates[side.label], note=f"{tasks:,} waiting", point=tasks)
            if tasks > least:
                last = tasks == depths[-1] and side.label == "scylla"
                judge(row, ratio_of(rates[side.label], first[side.label]), 0.95 if last else None)
                row.note += f"; the ratio is to {least:,}"
            yield row


def clients(bench: Bench, special: Special) -> Iterator[Row]:
    """The single rate with 1 to 64 clients."""
    if bench.options.clients:
        yield special.row("scylla", note="left out: --clients gives one number for all")
        return
    numbers = [1, 16, 64] if bench.options.quick else [1, 2, 4, 8, 16, 32, 64]
    all_rates: dict[int, Rates] = {}
    for number in numbers:
        sides = tuple(Side(system, "work-1", clients=number) for system in ("scylla", "plain", "pgmq"))
        rates, missing = measure(bench, sides)
        all_rates[number] = rates
        for label, reason in missing.items():
            yield special.row(label, note=reason)
        for label, values in rates.items():
            row = special.rates(label, values, note=f"{number} clients", point=number)
            if number == numbers[-1] and label == "scylla":
                judge(row, ratio_of(values, all_rates[16][label]), 1)
                row.note += "; the ratio is to 16"
            yield row


def wal(bench: Bench, special: Special) -> Iterator[Row]:
    """Bytes of WAL from submitting a task with a spec of 100 bytes to its end, one at a time."""
    number = bench.scale(20_000, 2_000)
    figures: dict[str, list[float]] = {}
    for system in ("scylla", "plain"):
        bench.systems.get("floor")
        bench.systems.get(system)
        define = {"bytes": 100}
        # pages that are new to a checkpoint are written whole, once: not what a task costs
        bench.server.settle()
        bench.load(f"{system}/submit-spec", 4, transactions=500, define=define)
        bench.load(f"{system}/work-1", 4, transactions=500)
        figures[system] = [wal_of(bench, f"{system}/{script}", number, define) for script in ("submit-spec", "work-1")]
    ours, theirs = (sum(figures[system]) for system in figures)
    for system, (submit, work) in figures.items():
        row = special.row(
            system, submit + work, "bytes", note=f"{submit:,.0f} to submit, {work:,.0f} to own and return"
        )
        if system == "plain":
            row.ratio, row.target, row.met = ours / theirs, "<= 0.75", ours / theirs <= 0.75
        yield row


def wal_of(bench: Bench, script: str, number: int, define: dict[str, int]) -> float:
    """Bytes of WAL of one transaction."""
    server = bench.server
    start = server.sql("select pg_current_wal_insert_lsn()")
    bench.load(script, 4, transactions=number // 4, define=define)
    return server.number(f"select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '{start}')") / number


def shape(bench: Bench, special: Special) -> Iterator[Row]:
    """What the end of a task writes and leaves on disk, and how long the next 1,000 take to be found."""
    server = bench.server
    number = bench.scale(1_000_000, 20_000)
    for system in ("appended", "moved"):
        bench.systems.get(system)
        server.sql(f"select {system}.clear()", f"select {system}.fill({number})", "vacuum analyze", "checkpoint")
        settled = number * 99 // 100 // 1000
        bench.load(f"{system}/work-many", 1, transactions=1, define={"size": 1000})
        start = server.sql("select pg_current_wal_insert_lsn()")
        bench.load(f"{system}/work-many", 1, transactions=settled - 1, define={"size": 1000})
        wal = server.number(f"select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '{start}')")
        yield special.row(system, wal / (settled - 1) / 1000, "bytes", note="WAL of the end of a task, by 1,000")
        server.sql("vacuum analyze")
        tables = f"pg_total_relation_size('{system}.live') + pg_total_relation_size('{system}.moved')"
        size = server.number(f"select {tables} + pg_total_relation_size('{system}.settled')")
        yield special.row(system, size / number, "bytes", note=f"on disk of each of {number:,} tasks, 99 % settled")
        for most, what in ((1000, "the next 1,000 in their order"), (number, "all that are live")):
            yield special.row(system, elapsed(bench, f"{system}.next({most})"), "ms", note=f"finding {what}")


def elapsed(bench: Bench, function: str) -> float:
    """Milliseconds of a function that returns rows, the shortest of three."""
    timed = f"""
        do $$ declare started timestamptz := clock_timestamp(); begin
            perform count(*) from {function};
            perform set_config('bench.ms', (1000 * extract(epoch from clock_timestamp() - started))::text, false);
        end $$"""
    return min(float(bench.server.sql(timed, "select current_setting('bench.ms')")) for _ in range(3))


def memory(bench: Bench, special: Special) -> Iterator[Row]:
    """The shared memory of the board."""
    size, slots = bench.server.numbers("""
        select s.size, current_setting('scylla.board_size')::bigint
        from pg_shmem_allocations s where s.name = 'scylla'""")
    yield special.row("scylla", size / slots, "bytes", note=f"a slot, of {slots:,.0f}: {size / 1024:,.0f} kB in all")
