"""Binary parameters: the driver in Rust beside pgbench, which sends text."""

from __future__ import annotations

from collections.abc import Iterator

from ..bench import Bench
from ..compare import Rates, Side, Slice, judge, ratio_of
from ..pgbench import drive
from ..results import Row
from ..server import BenchError
from . import Special


def work(bench: Bench, special: Special) -> Iterator[Row]:
    """Owning and returning with both, by 1, 100 and 1,000."""
    for size, clients in ((1, 16), (100, 4), (1000, 4)):
        script = "work-1" if size == 1 else "work-many"
        text, binary = f"text, by {size:,}", f"binary, by {size:,}"
        one = Slice(bench, bench.systems.get("scylla"), Side("scylla", script, size=size, clients=clients))
        rates: Rates = {text: [], binary: []}
        for at in range(bench.options.rounds):
            bench.progress.step(f"by {size:,}, round {at + 1}")
            bench.server.settle()
            rates[text].append(one.measure())
            rates[binary].append(drive_work(bench, one, size))
        yield special.rates(binary, rates[binary])
        row = special.rates(text, rates[text])
        judge(row, ratio_of(rates[binary], rates[text]), None)
        yield row


def drive_work(bench: Bench, one: Slice, size: int) -> float:
    """A slice of the driver: tasks per second. Counts like one of pgbench."""
    one.fill(2 * one.guess * bench.options.seconds)
    before = one.count()
    transactions, tps = drive(bench.server, "work", one.clients, bench.options.seconds, size)
    after = one.count()
    assert before and after
    if before.ready - after.ready != transactions * size or after.repeated:
        raise BenchError(f"{transactions * size:,.0f} tasks were returned, {before.ready - after.ready:,} are gone")
    return tps * size


def submit(bench: Bench, special: Special) -> Iterator[Row]:
    """submit_many by 1,000 with both."""
    one = Slice(bench, bench.systems.get("scylla"), Side("scylla", "submit-many", size=1000, clients=4))
    text, binary = [], []
    for at in range(bench.options.rounds):
        bench.progress.step(f"round {at + 1}")
        bench.server.settle()
        text.append(one.measure())
        binary.append(drive(bench.server, "submit", 4, bench.options.seconds, 1000)[1] * 1000)
    yield special.rates("binary", binary)
    row = special.rates("text", text)
    judge(row, ratio_of(binary, text), None)
    yield row
