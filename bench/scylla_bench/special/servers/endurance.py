"""A steady rate for long, with a snapshot held in the middle; and a server of its own for what goes on for long."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ...bench import Bench
from ...cost import Mark
from ...results import Row
from ...server import BenchError, private
from ...systems import Systems, check_indexes
from .. import Special, at_least

RATE = 2_000  # tasks per second
PRODUCERS, CONSUMERS, BATCH = 16, 4, 100
PAUSE = 10  # ms, of a consumer that found nothing
CATCH_UP = 60  # seconds, after the last phase
PHASES = ("before", "snapshot held", "after")


@dataclass(frozen=True)
class Contender:
    """What is to be known of a system that goes on for long."""

    live: str  # SQL: tasks that are not done
    settled: str  # SQL: those done, and how often one was done again; "": it deletes them
    again: str  # SQL: when those were done that were handed out more than once
    prepare: str = ""  # SQL, before workers are killed
    sweep: str = ""  # SQL once a second: makes tasks ready again whose workers are gone


CONTENDERS = {
    "scylla": Contender(
        live="select count(*) from scylla.task",
        settled="select count(distinct id), count(*) - count(distinct id) from scylla.finished",
        again="select extract(epoch from updated) from scylla.finished where tries > 1",
    ),
    "plain": Contender(
        live="select count(*) from plain.job where status <> 'completed'",
        settled="select count(*) filter (where status = 'completed'), 0 from plain.job",
        again="select extract(epoch from updated) from plain.job where status = 'completed' and tries > 1",
        prepare="create index job_deadline on plain.job (deadline) where status = 'running'",
        sweep="update plain.job set status = 'ready' where status = 'running' and deadline < now()",
    ),
    "pgmq": Contender(
        live="select count(*) from pgmq.q_bench",
        settled="",
        again="select extract(epoch from archived_at) from pgmq.a_bench where read_ct > 1",
    ),
}


@contextlib.contextmanager
def contender(bench: Bench, name: str) -> Iterator[Bench]:
    """A new server, on which one system is installed."""
    with private("endurance", "max_connections = 400") as server:
        own = replace(bench, server=server, systems=Systems(server, bench.options.key))
        own.systems.get(name)
        yield own
        if name == "scylla":
            bench.progress.step("checking the indexes")
            check_indexes(server)


def in_turn(bench: Bench, special: Special, measure: Callable[[Bench, str], Iterator[Row]]) -> Iterator[Row]:
    """Each system on a new server. What fails of a reference is said, and the others are measured."""
    for name in CONTENDERS:
        try:
            with contender(bench, name) as own:
                yield from measure(own, name)
        except BenchError as reason:
            if name == "scylla":
                raise
            yield special.row(name, note=f"not measured: {reason}")


def steady(bench: Bench, special: Special) -> Iterator[Row]:
    """Each system in turn."""
    return in_turn(bench, special, lambda own, name: phases(own, special, name))


def phases(own: Bench, special: Special, name: str) -> Iterator[Row]:
    """Producers at a rate, consumers that take batches."""
    server, submitted = own.server, 0
    server.settle()
    length = sum(own.options.phases)
    define = {"size": BATCH, "pause": PAUSE}
    with own.background(f"{name}/poll", CONSUMERS, seconds=2 * length + 2 * CATCH_UP, define=define) as consumers:
        for phase, seconds in zip(PHASES, own.options.phases, strict=True):
            own.progress.step(f"{name}, {phase}, {seconds} s")
            before, live = Mark.now(server, name), server.number(CONTENDERS[name].live)
            with own.held_snapshot() if phase == "snapshot held" else contextlib.nullcontext():
                run = own.load(f"{name}/submit-1", PRODUCERS, seconds=seconds, rate=RATE)
                after, left = Mark.now(server, name), server.number(CONTENDERS[name].live)
            submitted += run.transactions
            done = run.transactions - (left - live)
            note = f"offered {run.transactions / seconds:,.0f}/s, {left:,.0f} left; {after.since(before, done)}"
            row = special.row(f"{name}, {phase}", done / seconds, note=note)
            yield at_least(row, round(0.99 * run.transactions / seconds)) if name == "scylla" else row
        left = catch_up(own, name)
        if consumers.process.poll() is not None:
            raise BenchError(f"the consumers of {name} have ended")
    done, twice = server.numbers(CONTENDERS[name].settled or f"select {submitted - left}, 0")
    if done + left != submitted or twice:
        raise BenchError(f"{name}: {submitted:,} submitted, {done:,.0f} done, {left:,.0f} left, {twice:,.0f} twice")


def catch_up(own: Bench, name: str) -> float:
    """What is left when the consumers had time to do the rest."""
    until = time.monotonic() + CATCH_UP
    while (left := own.server.number(CONTENDERS[name].live)) and time.monotonic() < until:
        time.sleep(0.5)
    return left
