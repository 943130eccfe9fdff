"""Workloads that are more than slices in turns: each is a function that yields rows."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..bench import Bench
from ..results import Row

Measure = Callable[[Bench, "Special"], Iterator[Row]]


@dataclass(frozen=True)
class Special:
    """A workload with a function of its own."""

    name: str
    family: str
    what: str
    measure: Measure
    own_server: bool = False  # whether it changes settings, or looks at processes

    def run(self, bench: Bench) -> Iterator[Row]:
        """Measures it."""
        if self.own_server and not bench.server.own:
            yield self.row("scylla", note="measured only on the benchmark's own server")
            return
        yield from self.measure(bench, self)

    def row(self, side: str, value: float | None = None, unit: str = "tasks/s", **more: object) -> Row:
        """One of its rows."""
        return Row(self.family, self.name, side, value, unit, **more)  # type: ignore[arg-type]

    def rates(self, side: str, rates: list[float], unit: str = "tasks/s", **more: object) -> Row:
        """A row of the median of rates."""
        return self.row(side, statistics.median(rates), unit, low=min(rates), high=max(rates), **more)


def at_least(row: Row, target: float) -> Row:
    """The row's value must reach the target."""
    assert row.value is not None
    row.target, row.met = f">= {target:,g}", row.value >= target
    return row


def at_most(row: Row, target: float, value: float | None = None, what: str = "") -> Row:
    """The row's value, or another of its figures, must not exceed the target."""
    seen = row.value if value is None else value
    assert seen is not None
    met = seen <= target
    row.target = f"{row.target}, {what}<= {target:,g}" if row.target else f"{what}<= {target:,g}"
    row.met = met if row.met is None else row.met and met
    return row
