"""Many workers with a backlog, while the server or some of them are killed.

A worker is a client of pgbench that owns and returns one task after the other. When a process of them ends, another
one is started, as a service manager does. What was done, and when, is from the workers' logs; what exists, from the
tables.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ...bench import Bench
from ...pgbench import Load, Running
from ...results import Row
from ...server import PG, BenchError, Server, run_script
from .. import Special, at_most
from .endurance import CONTENDERS, in_turn

PROCESSES, CLIENTS = 8, 32
WORKERS = PROCESSES * CLIENTS
KILLED = PROCESSES // 4
LEASE = 10  # seconds: the default of scylla, what the plain queue has, and the scripts of pgmq ask for
START = 2  # seconds, until a rate is taken
DRAIN = 180  # seconds, for what is left to be done
DEFINE = {"size": 1, "pause": 20, "strict": 1}


class Process:
    """A process of workers, started again when it ended."""

    def __init__(self, server: Server, script: str) -> None:
        self.server = server
        self.load = Load(script, CLIENTS, 86_400, define=DEFINE, latencies=True)
        self.runs: list[Running] = []
        self.wanted, self.stopped = threading.Event(), False
        self.wanted.set()
        self.thread = threading.Thread(target=self._keep, daemon=True)
        self.thread.start()

    def _keep(self) -> None:
        while self.wanted.wait() and not self.stopped:
            self.runs.append(Running(self.server, self.load))
            self.runs[-1].process.communicate()
            time.sleep(0.05)

    def kill(self) -> None:
        """It ends at once, and is not started again until it is told so."""
        self.wanted.clear()
        self.runs[-1].process.kill()

    def times(self) -> list[float]:
        """When it had done a task."""
        return [at for run in self.runs for file in Path(run.folder.name).glob("log.*") for at in done_at(file)]


def done_at(file: Path) -> Iterator[float]:
    """The ends of transactions that did not fail. The last line of a killed process may be cut off."""
    for line in file.read_text().split("\n")[:-1]:
        _, _, latency, _, seconds, microseconds, *_ = line.split()
        if latency != "failed":
            yield int(seconds) + int(microseconds) / 1e6


class Fleet:
    """All workers of a system."""

    def __init__(self, own: Bench, name: str) -> None:
        self.server = own.server
        self.processes = [Process(own.server, f"{name}/poll") for _ in range(PROCESSES)]

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for process in self.processes:
            for run in process.runs:
                run.folder.cleanup()

    def ready(self) -> None:
        """Waits until all are connected, and some time more."""
        clients = "select count(*) from pg_stat_activity where application_name = 'pgbench'"
        for _ in range(600):
            if self.server.number(clients) >= WORKERS:
                time.sleep(START)
                return
            time.sleep(0.1)
        raise BenchError("the workers did not connect within a minute")

    def stop(self) -> None:
        """Ends all. The server ends their sessions: a pgbench that is killed does not write its log to the end."""
        for process in self.processes:
            process.stopped = True
            process.wanted.set()
        until = time.monotonic() + 60
        while any(process.thread.is_alive() for process in self.processes):
            with contextlib.suppress(BenchError):  # when the server is down
                self.server.end_sessions()
            time.sleep(0.2)
            if time.monotonic() > until:
                for process in self.processes:
                    process.runs[-1].process.kill()

    def times(self) -> list[float]:
        """When a task was done."""
        return sorted(at for process in self.processes for at in process.times())


@contextlib.contextmanager
def swept(server: Server, sweep: str) -> Iterator[None]:
    """Tasks of workers that are gone become ready again, for a queue that does not do so itself."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(1):
            with contextlib.suppress(BenchError):  # when the server is down
                server.sql(sweep)

    thread = threading.Thread(target=run if sweep else lambda: None, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def rate(times: list[float], begin: float, end: float) -> float:
    """Tasks per second between two moments."""
    return sum(begin <= at < end for at in times) / (end - begin)


class Trial:
    """One system: a backlog that suffices, workers, and what is lost in the end."""

    def __init__(self, own: Bench, special: Special, name: str) -> None:
        self.own, self.special, self.name, self.contender = own, special, name, CONTENDERS[name]
        self.submitted = self.acknowledged = 0

    def fill(self, tasks: float) -> None:
        """Adds tasks."""
        transactions = int(tasks) // 2000 + 1
        self.own.load(f"{self.name}/submit-many", 2, transactions=transactions, define={"size": 1000})
        self.submitted += 2000 * transactions

    def prepare(self, seconds: float) -> None:
        """A backlog for so many seconds, by the rate that these workers have."""
        if self.contender.prepare:
            self.own.server.sql(self.contender.prepare)
        self.own.progress.step(f"{self.name}: how fast the workers are")
        self.fill(100_000)
        trial = self.own.load(f"{self.name}/poll", WORKERS, seconds=3, define=DEFINE)
        self.acknowledged += trial.transactions
        self.fill(1.6 * trial.tps * (seconds + START + 5))
        self.own.server.settle()

    def row(self, what: str, value: float, unit: str = "tasks/s", note: str = "") -> Row:
        """A figure of this system."""
        return self.special.row(f"{self.name}, {what}", value, unit, note=note)

    def account(self, times: list[float], unwritten: int) -> Row:
        """What is lost, and what was done twice, when all is done. So many may be without an answer, or unlogged."""
        own, contender = self.own, self.contender
        self.acknowledged += len(times)
        left = own.server.number(contender.live)
        if not left:
            raise BenchError(f"{self.name}: the workers ran dry")
        done = own.server.numbers(contender.settled)[0] if contender.settled else self.submitted - left
        if not self.acknowledged <= done <= self.acknowledged + unwritten:
            raise BenchError(f"{self.name}: {self.acknowledged:,} were returned as workers know, {done:,.0f} are done")
        own.progress.step(f"{self.name}: the rest")
        begun = time.monotonic()
        define = {"size": 1000, "pause": 100}
        with own.background(f"{self.name}/poll", 4, seconds=DRAIN, define=define):
            while own.server.number(contender.live):
                if time.monotonic() - begun > DRAIN:
                    raise BenchError(f"{self.name}: tasks are left that are never done")
                time.sleep(0.5)
        unheard = f"{done - self.acknowledged:,.0f} were done whose worker had no answer, or no time to log it"
        if not contender.settled:
            return self.row("lost or twice", float("nan"), "tasks", f"not to be told: it deletes them; {unheard}")
        settled, twice = own.server.numbers(contender.settled)
        lost = self.submitted - settled
        note = f"{lost:,.0f} lost, {twice:,.0f} twice, of {self.submitted:,}; {unheard}"
        return at_most(self.row("lost or twice", abs(lost) + twice, "tasks", note), 0)

    def crash(self) -> Iterator[Row]:
        """The server is killed, and started again."""
        seconds = self.own.scale(20, 5)
        self.prepare(2 * seconds)
        assert self.own.server.data
        data = str(self.own.server.data)
        with swept(self.own.server, self.contender.sweep), Fleet(self.own, self.name) as fleet:
            fleet.ready()
            self.own.progress.step(f"{self.name}: before and after the crash")
            begin = time.time()
            time.sleep(seconds)
            killed = time.time()
            run_script(PG, "kill", data)
            down = time.time()
            run_script(PG, "restart", data)
            up = time.time()
            fleet.ready()
            time.sleep(seconds)
            end = time.time()
            fleet.stop()
            times = fleet.times()
            first = min((at for at in times if at > down), default=None)
            if first is None:
                raise BenchError(f"{self.name}: no task was done after the crash")
            yield self.row("before", rate(times, begin, killed), note=f"{WORKERS} workers in {PROCESSES} processes")
            note = f"from the kill; {down - killed:.2f} s until no process was left, {up - down:.2f} s to start"
            yield self.row("first task", first - killed, "s", note)
            yield self.row("after", rate(times, first + START, end))
            yield self.account(times, 2 * WORKERS)

    def killed(self) -> Iterator[Row]:
        """A quarter of the processes is killed, and started again after their leases."""
        seconds = self.own.scale(15, 5)
        self.prepare(2 * seconds + LEASE + 5)
        with swept(self.own.server, self.contender.sweep), Fleet(self.own, self.name) as fleet:
            fleet.ready()
            self.own.progress.step(f"{self.name}: before and after the kill")
            begin = time.time()
            time.sleep(seconds)
            killed = time.time()
            for process in fleet.processes[:KILLED]:
                process.kill()
            time.sleep(LEASE + 5)
            back = time.time()
            for process in fleet.processes[:KILLED]:
                process.wanted.set()
            fleet.ready()
            again = time.time()
            time.sleep(seconds)
            end = time.time()
            fleet.stop()
            times = fleet.times()
            yield self.row("before", rate(times, begin, killed), note=f"{WORKERS} workers in {PROCESSES} processes")
            yield self.row("a quarter gone", rate(times, killed, back))
            yield self.row("all are back", rate(times, again, end))
            given = [float(line) - killed for line in self.own.server.sql(self.contender.again).splitlines()]
            given = sorted(after for after in given if after < end - killed)
            if not given:
                raise BenchError(f"{self.name}: no task of a killed worker was given out again")
            note = f"{len(given)} tasks of the killed, done again {given[0]:.1f} to {given[-1]:.1f} s after the kill"
            yield self.row("given again after", statistics.median(given), "s", note)
            # the last 4 kB of the log of each thread of a killed process are not written
            yield self.account(times, 2 * WORKERS + KILLED * 2 * 4096 // 25)


def crash(bench: Bench, special: Special) -> Iterator[Row]:
    """The server is killed under each system."""
    return each(bench, special, Trial.crash)


def workers(bench: Bench, special: Special) -> Iterator[Row]:
    """Workers of each system are killed."""
    return each(bench, special, Trial.killed)


def each(bench: Bench, special: Special, what: Callable[[Trial], Iterator[Row]]) -> Iterator[Row]:
    """Each system in turn."""

    def trial(own: Bench, name: str) -> Iterator[Row]:
        return what(Trial(own, special, name))

    return in_turn(bench, special, trial)
