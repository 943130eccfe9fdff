"""The worker of the client in Rust, beside its driver that makes the same calls in a loop."""

from __future__ import annotations

from collections.abc import Iterator

from ...bench import Bench
from ...compare import Rates, Side, Slice, judge, ratio_of
from ...pgbench import drive
from ...results import Row
from ...server import BenchError
from .. import Special

# concurrency; connections of the bare driver and how many tasks each takes; the least ratio
LOADS = ((1, 1, 1, 0.77), (32, 1, 32, 0.87), (256, 3, 100, 0.87))
GUESS = 150_000  # tasks a second, at most


def worker(bench: Bench, special: Special) -> Iterator[Row]:
    """Owning, running a handler that does nothing, and returning."""
    for concurrency, connections, size, target in LOADS:
        label, bare = f"worker, concurrency {concurrency}", f"bare driver, {connections} × {size}"
        one = Slice(bench, bench.systems.get("scylla"), Side("scylla", "joined-many", size=size, clients=connections))
        rates: Rates = {label: [], bare: []}
        for at in range(bench.options.rounds):
            bench.progress.step(f"concurrency {concurrency}, round {at + 1}")
            bench.server.settle()
            rates[label].append(_worker(bench, one, concurrency))
            _fill(bench, one)
            rates[bare].append(drive(bench.server, "joined", connections, bench.options.seconds, size)[1] * size)
            one.release()
        yield special.rates(label, rates[label])
        row = special.rates(bare, rates[bare])
        judge(row, ratio_of(rates[label], rates[bare]), target)
        yield row


def _fill(bench: Bench, one: Slice) -> None:
    one.fill((bench.options.seconds + 1) * GUESS / one.side.size)


def _worker(bench: Bench, one: Slice, concurrency: int) -> float:
    """A slice of the worker: tasks per second. Every task that it has returned is gone."""
    _fill(bench, one)
    before = one.count()
    rate, returned = drive(bench.server, "worker", concurrency, bench.options.seconds)
    after = one.count()
    assert before and after
    if before.ready - after.ready != returned or after.repeated:
        raise BenchError(f"{returned:,.0f} tasks were returned, {before.ready - after.ready:,} are gone")
    return rate
