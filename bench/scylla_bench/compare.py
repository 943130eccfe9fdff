"""Comparisons: several systems, or several ways of using one, measured in turns.

A round is vacuum and analyze, a checkpoint, and for each side filling its queue and a slice. Rates
are medians over the rounds. A ratio is the median of the rounds' ratios: both sides of one round had
the same machine. After each slice the tasks are counted.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from .bench import Bench
from .cost import Cost, Mark
from .pgbench import Run
from .results import Row
from .server import BenchError
from .systems import PEERS, Ledger, System

FILL_SIZE = 1000  # tasks of a transaction that fills a queue


@dataclass(frozen=True)
class Side:
    """One system under one load."""

    system: str
    script: str  # of the system's folder: submit-… or what takes tasks
    size: int = 1  # tasks of a transaction
    clients: int = 16
    name: str = ""  # in the table; by default the system's
    setup: str = ""  # SQL, once before all
    fill: str = "submit-many"
    fill_size: int = FILL_SIZE
    depth: int = 0  # so many tasks wait at least
    queues: int = 1  # over which its tasks are spread evenly
    held: int = 0  # tasks that each client still owns at the end
    define: Mapping[str, object] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)  # of its sessions
    during: Callable[[Bench], AbstractContextManager[None]] = lambda _: nullcontext()

    @property
    def label(self) -> str:
        """Its name in the table."""
        return self.name or self.system

    @property
    def submits(self) -> bool:
        """Whether it adds tasks, or takes them."""
        return self.script.startswith("submit")


@dataclass(frozen=True)
class Target:
    """What the first side must reach: a ratio to another one, or to the best peer."""

    against: str
    at_least: float


Rates = dict[str, list[float]]
BEST_PEER = "best peer"


@dataclass(frozen=True)
class Compare:
    """A comparison: the first side is the subject, the others are its references."""

    name: str
    family: str
    what: str
    sides: tuple[Side, ...]
    targets: tuple[Target, ...] = ()

    def run(self, bench: Bench) -> Iterator[Row]:
        """Measures all sides in turns."""
        costs: dict[str, Cost] = {}
        rates, missing = measure(bench, self.sides, costs=costs)
        for row in rows(self, rates, missing):
            row.cost = costs.get(row.side)
            yield row


def measure(
    bench: Bench, sides: tuple[Side, ...], rounds: int | None = None, costs: dict[str, Cost] | None = None
) -> tuple[Rates, dict[str, str]]:
    """Tasks per second of each side in each round, and why a side has none. Sets what they cost in the last round."""
    slices: dict[str, Slice] = {}
    missing: dict[str, str] = {}
    for side in sides:
        try:
            slices[side.label] = Slice(bench, bench.systems.get(side.system), side)
        except BenchError as reason:
            missing[side.label] = f"no {side.system}: {reason}"
    rates: Rates = {label: [] for label in slices}
    number = rounds or bench.options.rounds
    for at in range(number):
        bench.server.settle()
        for label, one in slices.items():
            bench.progress.step(f"round {at + 1} of {number}, {label}")
            rates[label].append(one.measure())
            if costs is not None and one.cost:
                costs[label] = one.cost
    return rates, missing


class Slice:
    """A side that is measured again and again."""

    def __init__(self, bench: Bench, system: System, side: Side) -> None:
        self.bench, self.system, self.side = bench, system, side
        self.clients = bench.options.clients or side.clients
        self.queue = str(side.define.get("queue", "bench"))
        self.guess = 0.0  # transactions per second, at most
        self.cost: Cost | None = None  # of the last slice
        if "bytes" in side.define:
            bench.systems.get("floor")  # has the specs of all sizes
        if side.setup:
            bench.server.sql(side.setup)

    def run(self, seconds: int = 0, transactions: int = 0) -> Run:
        """The load itself."""
        side = self.side
        with side.during(self.bench):
            return self.bench.load(
                f"{self.system.name}/{side.script}",
                self.clients,
                seconds=seconds,
                transactions=transactions,
                define={"size": side.size, **self.system.define, **side.define},
                settings=side.settings,
            )

    def fill(self, transactions: float) -> None:
        """Adds tasks until there are enough for so many transactions."""
        side = self.side
        if side.submits or not self.system.ledger:
            return
        wanted = max(side.depth, int(transactions * side.size) + 2 * self.clients * side.size)
        missing = wanted - self.system.count(self.bench.server, self.queue).ready
        if missing <= 0:
            return
        self.bench.load(
            f"{self.system.name}/{side.fill}",
            2,
            transactions=-(-missing // (2 * side.fill_size)),
            define={"size": side.fill_size, **self.system.define, **side.define},
        )

    def measure(self) -> float:
        """Tasks per second of one slice. A queue that ran dry is filled again, and fuller."""
        seconds = self.bench.options.seconds
        if not self.guess and not self.side.submits and self.system.ledger:
            each = 10 if self.side.size > 1 else 50
            self.fill(self.clients * each + 1)
            self.guess = 1.5 * self.run(transactions=each).tps
            self.release()
        for _ in range(5):
            self.fill(1.3 * self.guess * seconds)
            before, mark = self.count(), Mark.now(self.bench.server, self.system.schema)
            try:
                run = self.run(seconds=seconds)
            except BenchError:
                self.release()
                if not self.ran_dry():
                    raise
                self.guess *= 2
                continue
            after = Mark.now(self.bench.server, self.system.schema)
            self.cost = after.since(mark, run.transactions * self.side.size)
            self.check(before, run)
            self.guess = max(self.guess, run.tps)
            return run.tps * self.side.size
        raise BenchError("the queue runs dry however much it is filled")

    def count(self) -> Ledger | None:
        """The tasks now."""
        return self.system.count(self.bench.server, self.queue) if self.system.ledger else None

    def release(self) -> None:
        """Ends the tasks that the slice still owns."""
        if self.system.release:
            self.bench.server.sql(self.system.release)

    def ran_dry(self) -> bool:
        """Whether there was too little for all clients."""
        now, side = self.count(), self.side
        return now is not None and not side.submits and now.ready < self.clients * side.size * side.queues

    def check(self, before: Ledger | None, run: Run) -> None:
        """Every task was handed out once, and the counts add up."""
        after = self.count()
        if before is None or after is None:
            return
        tasks = run.transactions * self.side.size
        held = self.side.held * self.clients
        fault = disagreement(before, after, tasks, held, self.side.submits)
        if fault:
            raise BenchError(f"{self.side.label}: {fault}")
        if held:
            self.release()


def disagreement(before: Ledger, after: Ledger, tasks: int, held: int, submitted: bool) -> str:
    """What does not add up after so many tasks were submitted, or were owned and, but for `held`, returned."""
    added = tasks if submitted else 0
    taken = 0 if submitted else tasks
    returned = taken - held
    expected = {
        "ready": (after.ready, before.ready + added - taken),
        "running": (after.running, before.running + taken - returned),
    }
    if before.done is not None and after.done is not None:
        expected["completed"] = (after.done, before.done + returned)
    expected["tasks handed out twice"] = (after.repeated, 0)
    return "; ".join(
        f"{what}: {found:,}, not {wanted:,}" for what, (found, wanted) in expected.items() if found != wanted
    )


# ---- rows of the table ----


def ratio_of(ours: list[float], theirs: list[float]) -> float:
    """The median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def rows(compare: Compare, rates: Rates, missing: dict[str, str], point: float | None = None) -> Iterator[Row]:
    """A row for each side, and one for the best peer when a target names it."""
    subject = compare.sides[0].label
    targets = {target.against: target.at_least for target in compare.targets}
    family, name = compare.family, compare.name
    for side in compare.sides:
        label = side.label
        if label in missing:
            yield Row(family, name, label, note=missing[label], point=point)
            continue
        theirs = rates[label]
        row = Row(family, name, label, statistics.median(theirs), low=min(theirs), high=max(theirs), point=point)
        if label != subject and subject in rates:
            judge(row, ratio_of(rates[subject], theirs), targets.get(label))
        yield row
    peers = [label for label in rates if label in PEERS]
    if BEST_PEER in targets and peers and subject in rates:
        best = max(peers, key=lambda label: statistics.median(rates[label]))
        row = Row(family, name, BEST_PEER, statistics.median(rates[best]), note=f"the best peer is {best}")
        judge(row, ratio_of(rates[subject], rates[best]), targets[BEST_PEER])
        yield row


def judge(row: Row, ratio: float, at_least: float | None) -> None:
    """Sets the ratio, and whether it reaches the target."""
    row.ratio = ratio
    if at_least is not None:
        row.target = f">= {at_least:g}"
        row.met = ratio >= at_least
