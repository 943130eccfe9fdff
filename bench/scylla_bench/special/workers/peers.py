"""Tasks through a client's worker, beside the peers' workers of the same language.

Each language has one program below bench/workers, which makes a system's schema, adds tasks, and runs its worker.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...bench import Bench
from ...compare import ratio_of
from ...cost import Cost, Mark
from ...results import Row
from ...server import REPO, BenchError, run_script
from .. import Measure, Special, at_least

CONCURRENCY = (1, 32, 256)
JUDGED, TARGET = 32, 2  # times the best peer
RATE, SECONDS = 500, 8  # of submissions, for the latency
TRY = 3_000  # tasks, to see how fast a worker is
AT_ONCE = 600  # tasks that a worker holds besides those that it runs, at most
LONGEST = 300  # seconds, of one call of a program
INSTALL = REPO / "target" / "bench-workers"


@dataclass(frozen=True)
class Language:
    """The program of a language, and what it can run."""

    name: str
    schemas: dict[str, str]  # of each system; ours are the first
    command: Callable[[], list[str]]  # makes the program ready

    @property
    def ours(self) -> list[str]:
        """Ours, by its default and otherwise."""
        return [name for name in self.schemas if name.startswith("scylla")]


def node() -> list[str]:
    """Installs the packages of bench/workers/node, and builds the client."""
    source, target = REPO / "bench" / "workers" / "node", INSTALL / "node"
    programs = run_script(str(REPO / "clients" / "typescript" / "toolchain"), "22")
    os.environ["PATH"] = f"{programs}:{os.environ['PATH']}"
    run_script(str(REPO / "clients" / "typescript" / "test"), "--driver")
    target.mkdir(parents=True, exist_ok=True)
    lock, installed = "package-lock.json", target / "installed.json"
    if not installed.exists() or installed.read_bytes() != (source / lock).read_bytes():
        for file in ("package.json", lock):
            shutil.copy(source / file, target)
        run_script("npm", f"--prefix={target}", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        (target / "node_modules" / "scylla-pg").symlink_to(REPO / "clients" / "typescript")
        shutil.copy(source / lock, installed)
    for program in source.glob("*.js"):
        shutil.copy(program, target)
    return [f"{programs}/node", str(target / "main.js")]


NODE = Language(
    "node",
    {
        "scylla": "scylla",
        "scylla-prefetch": "scylla",
        "graphile": "graphile_worker",
        "pgboss": "pgboss",
        "bullmq": "bullmq",
    },
    node,
)


def python() -> list[str]:
    """Installs the packages of bench/workers/python. The client is taken from its folder."""
    source, target = REPO / "bench" / "workers" / "python", INSTALL / "python"
    wanted, installed = source / "requirements.txt", target / "installed.txt"
    if not installed.exists() or installed.read_bytes() != wanted.read_bytes():
        run_script(sys.executable, "-m", "venv", "--clear", str(target))
        run_script(str(target / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", "-r", str(wanted))
        shutil.copy(wanted, installed)
    client = REPO / "clients" / "python" / "src"
    return ["env", f"PYTHONPATH={client}", str(target / "bin" / "python"), str(source / "main.py")]


PYTHON = Language(
    "python",
    {"scylla": "scylla", "scylla-prefetch": "scylla", "procrastinate": "procrastinate"},
    python,
)


def go() -> list[str]:
    """Builds bench/workers/go."""
    source, program = REPO / "bench" / "workers" / "go", INSTALL / "go" / "main"
    programs = run_script(str(REPO / "clients" / "go" / "toolchain"), "26")
    run_script(
        "env", "GOWORK=off", "GOTOOLCHAIN=local", f"{programs}/go", "build", "-C", str(source), "-o", str(program)
    )
    return [str(program)]


GO = Language("go", {"scylla": "scylla", "scylla-prefetch": "scylla", "river": "river"}, go)


class Side:
    """A system's worker under one load after the other."""

    def __init__(self, bench: Bench, command: list[str], name: str, schema: str) -> None:
        self.bench, self.command, self.name, self.schema = bench, command, name, schema
        words = dict(word.split("=", 1) for word in bench.server.conninfo.split())
        names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE"}
        self.environment = {**os.environ, **{names[key]: value for key, value in words.items()}}
        self.guess: dict[int, float] = {}  # tasks a second by concurrency

    def call(self, *words: object) -> dict[str, float]:
        """Runs the program to its end."""
        command = [*self.command, self.name, *(str(word) for word in words)]
        try:
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, env=self.environment, timeout=LONGEST
            )
        except subprocess.TimeoutExpired:
            self.bench.server.end_sessions()
            raise BenchError(f"{self.name} {words[0]} did not end within {LONGEST} s") from None
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines()
            reason = next(
                (line for line in lines if "error" in line.lower()), lines[-1] if lines else "no reason given"
            )
            raise BenchError(f"{self.name} {words[0]}: {reason.strip()[:200]}")
        found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return found

    def slice(self, concurrency: int, seconds: int) -> tuple[float, Cost]:
        """Tasks per second, and their cost. Each task that was handled is gone, and no other."""
        guess = self.guess.get(concurrency, TRY / (seconds + 2))
        for _ in range(6):
            filled = self.call("fill", int(1.4 * guess * (seconds + 2)) + concurrency + AT_ONCE)["left"]
            before = Mark.now(self.bench.server, self.schema)
            found = self.call("work", concurrency, seconds)
            cost = Mark.now(self.bench.server, self.schema).since(before, found["handled"])
            if filled - found["left"] != found["handled"]:
                raise BenchError(
                    f"{self.name}: {found['handled']:,.0f} were handled, {filled - found['left']:,.0f} are gone"
                )
            if found["left"] > 0:
                self.guess[concurrency] = found["rate"]
                return found["rate"], cost
            guess = 3 * max(guess, found["rate"])
        raise BenchError(f"{self.name}: the queue runs dry however much it is filled")


def beside(language: Language) -> Measure:
    """All systems of a language in turns."""

    def measure(bench: Bench, special: Special) -> Iterator[Row]:
        bench.progress.step("installing")
        command = language.command()
        sides = [Side(bench, command, name, schema) for name, schema in language.schemas.items()]
        try:
            yield from latencies(bench, special, sides)
            for concurrency in CONCURRENCY:
                yield from rates(bench, special, language, sides, concurrency)
        finally:
            for side in sides:
                if side.name not in language.ours:
                    side.call("remove")
                bench.systems.forget(side.name)
            bench.systems.get("scylla")

    return measure


def latencies(bench: Bench, special: Special, sides: list[Side]) -> Iterator[Row]:
    """From the call that submits one task to its handler, of empty queues."""
    for side in sides:
        bench.progress.step(f"{side.name}, latency")
        side.call("install")
        found = side.call("latency", JUDGED, RATE, bench.scale(SECONDS, 2))
        if found["handled"] != found["submitted"]:
            raise BenchError(f"{side.name}: {found['submitted']:,} submitted, {found['handled']:,} handled")
        note = f"{RATE} a second, concurrency {JUDGED}, p50; p99 {found['p99']:.1f} ms"
        yield special.row(f"{side.name}, to the handler", found["p50"], "ms", note=note)


def rates(bench: Bench, special: Special, language: Language, sides: list[Side], concurrency: int) -> Iterator[Row]:
    """A backlog, in turns."""
    found: dict[str, list[tuple[float, Cost]]] = {side.name: [] for side in sides}
    for at in range(bench.options.rounds):
        bench.server.settle()
        for side in sides:
            bench.progress.step(f"concurrency {concurrency}, round {at + 1}, {side.name}")
            if concurrency not in side.guess:
                side.slice(concurrency, 1)
            found[side.name].append(side.slice(concurrency, bench.options.seconds))
    measured = {name: [rate for rate, _ in slices] for name, slices in found.items()}
    ours, best = (
        max(
            (name for name in measured if (name in language.ours) == mine),
            key=lambda it: statistics.median(measured[it]),
        )
        for mine in (True, False)
    )
    for name, theirs in measured.items():
        cost = found[name][-1][1]
        row = special.rates(f"{name}, {concurrency} at once", theirs, note=str(cost), cost=cost)
        if name not in language.ours:
            row.ratio = ratio_of(measured[ours], theirs)
        yield row
        if name == best and concurrency == JUDGED:
            yield at_least(special.row("of the best peer", row.ratio, "times", note=f"that is {best}"), TARGET)
