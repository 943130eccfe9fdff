"""The command: arguments, the run, and what is left of it in bench/results."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from . import server, svg
from .bench import Bench, Options
from .results import Progress, Row, Table, human, write_csv
from .server import REPO, BenchError, Server
from .systems import KEYS, PEERS, Systems, check_indexes
from .workloads import EVERYONE, WORKLOADS, Workload, chosen

RESULTS = REPO / "bench" / "results"


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="bench/run",
        description="Measures scylla and, by turns, what it is compared with. Prints a table, and writes it with "
        "all figures and plots into bench/results. See bench/README.md.",
    )
    parser.add_argument(
        "connection",
        nargs="?",
        help="measure this server, which has scylla preloaded, in a new database; by default a private one is started",
    )
    parser.add_argument("--list", action="store_true", help="what can be measured")
    parser.add_argument("--only", metavar="NAME,...", help="these workloads or families")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one round of 1 s, and fewer tasks: to see that it works; its figures mean little",
    )
    parser.add_argument("--duration", type=number, metavar="SECONDS", help="of a slice (4)")
    parser.add_argument("--rounds", type=number, metavar="N", help="slices of each side; the median counts (3)")
    parser.add_argument("--clients", type=number, metavar="N", help="of every comparison, instead of its own number")
    parser.add_argument(
        "--key",
        choices=KEYS,
        default="uuid",
        help="the plain queue's primary key: uuid, random (default), or bigint, a sequence's number",
    )
    parser.add_argument(
        "--phases",
        type=three,
        metavar="SECONDS,SECONDS,SECONDS",
        help="of steady: before, while, and after a snapshot is held (30,90,30)",
    )
    return parser.parse_args(words)


def number(word: str) -> int:
    """A number from 1 to 9999."""
    if not word.isdecimal() or not 1 <= int(word) <= 9999:
        raise argparse.ArgumentTypeError("takes a number from 1 to 9999")
    return int(word)


def three(word: str) -> tuple[int, ...]:
    """Three numbers."""
    parts = tuple(number(part) for part in word.split(","))
    if len(parts) != 3:
        raise argparse.ArgumentTypeError("takes three numbers")
    return parts


def main(words: Sequence[str] | None = None) -> int:
    """Runs the benchmark; the exit status says whether everything ran."""
    given = arguments(words)
    if given.list:
        print_list()
        return 0
    workloads = chosen(given.only)
    usual = Options(quick=True, seconds=1, rounds=1, phases=(5, 8, 5)) if given.quick else Options()
    options = Options(
        given.quick,
        given.duration or usual.seconds,
        given.rounds or usual.rounds,
        given.clients,
        given.key,
        given.phases or usual.phases,
    )
    for signum in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, lambda signum, _: sys.exit(128 + signum))
    try:
        with server.existing(given.connection) if given.connection else server.started() as measured:
            return measure(measured, workloads, options)
    except BenchError as reason:
        print(f"bench: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def print_list() -> None:
    """All workloads by family."""
    family = ""
    for workload in sorted(WORKLOADS, key=lambda workload: workload.family):
        if workload.family != family:
            family = workload.family
            print(family)
        print(f"  {workload.name:20} {workload.what}")


def measure(measured: Server, workloads: list[Workload], options: Options) -> int:
    """Runs the workloads one after the other. One that fails does not stop the others."""
    folder = RESULTS / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    systems, progress = Systems(measured, options.key), Progress(len(workloads))
    bench, failed = Bench(measured, systems, options, progress), []
    took: dict[str, float] = {}
    with open(folder / "table.txt", "w") as file:
        table = Table(file)
        for line in about(measured, options):
            table.say(line)
        table.head()
        for workload in workloads:
            progress.begin(workload.name)
            begun = time.monotonic()
            try:
                systems.used = set()
                systems.get("scylla")
                for row in workload.run(bench):
                    progress.clear()
                    table.add(row)
                progress.step("checking the indexes")
                check_indexes(measured)
                progress.clear()
                systems.empty()
            except BenchError as reason:
                failed.append(workload.name)
                progress.clear()
                table.add(Row(workload.family, workload.name, "failed", note=str(reason)))
                systems.empty()
            took[workload.name] = time.monotonic() - begun
            write(folder, table.rows)
        for line in [*comparison(table.rows), *costs(table.rows)]:
            table.say(line)
        table.say(table.summary() + (f"; failed: {', '.join(failed)}" if failed else ""))
        table.say(times(took))
    print(f"written to {folder.relative_to(REPO)}", file=sys.stderr)
    return 1 if failed else 0


def times(took: dict[str, float], longest: int = 10) -> str:
    """How long the run took, and which of the workloads took most of it."""
    names = sorted(took, key=lambda name: -took[name])[:longest]
    parts = ", ".join(f"{name} {took[name]:.0f} s" for name in names)
    return f"took {sum(took.values()) / 60:.0f} min, of which {parts}"


def write(folder: Path, rows: list[Row]) -> None:
    """The figures until now, and the plot of each family."""
    write_csv(folder / "results.csv", rows)
    what = {workload.name: workload.what for workload in WORKLOADS}
    for family in dict.fromkeys(row.family for row in rows):
        of_family = [row for row in rows if row.family == family and row.value is not None]
        if of_family:
            (folder / f"{family}.svg").write_text(svg.plot(family, what, of_family))


def busy_share(seconds: float = 2) -> float:
    """The share of the processors' time that is in use now, which a load average tells of minutes before."""

    def ticks() -> tuple[int, int]:
        user, nice, system, idle, waiting, *others = map(
            int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9]
        )
        busy = user + nice + system + sum(others)
        return busy, busy + idle + waiting

    before = ticks()
    time.sleep(seconds)
    busy, total = (after - then for after, then in zip(ticks(), before, strict=True))
    return busy / max(total, 1)


def about(measured: Server, options: Options) -> list[str]:
    """The machine, and how it is measured."""
    model = next(
        (line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "?"
    )
    version = measured.sql("select version from pg_available_extension_versions where name = 'scylla' and installed")
    busy = busy_share()
    warning = " (something else is running: take no figure from this)" if busy > 0.1 else ""
    return [
        f"{time.strftime('%Y-%m-%d %H:%M')}, scylla {version}, PostgreSQL {measured.sql('show server_version')}, "
        f"{'a private server' if measured.own else 'an existing server'}",
        f"{os.cpu_count()} cores, {model.partition(': ')[2]}; busy before: {busy:.0%}{warning}",
        f"{options.rounds} rounds of {options.seconds} s{', quick' if options.quick else ''}; "
        f"the plain queue's key: {options.key}; fsync {measured.sql('show fsync')}",
        "",
    ]


def comparison(rows: list[Row]) -> list[str]:
    """The rates of all systems side by side, and scylla against the best peer."""
    compared = [name for name in dict.fromkeys(row.workload for row in rows) if len(systems_of(rows, name)) > 2]
    if not compared:
        return [""]
    heading = "".join(f"{system:>12}" for system in EVERYONE)
    lines = ["", f"{'tasks/s':20}{heading}{'of best peer':>14}"]
    for name in compared:
        rates = systems_of(rows, name)
        peers = [rates[system] for system in PEERS if rates.get(system)]
        share = f"{rates['scylla'] / max(peers):14.2f}" if peers and rates.get("scylla") else f"{'-':>14}"
        lines.append(f"{name:20}" + "".join(f"{human(rates.get(system)):>12}" for system in EVERYONE) + share)
    return [*lines, ""]


COSTS = {
    "processor": "µs of the processor",
    "log": "bytes of WAL",
    "commits": "commits",
    "dead": "dead rows left",
}


def costs(rows: list[Row]) -> list[str]:
    """What a task costs in the last slice of each system, side by side; and the dead rows that the slice leaves."""
    lines = []
    for name in dict.fromkeys(row.workload for row in rows):
        found = {row.side: row.cost for row in rows if row.workload == name and row.side in EVERYONE and row.cost}
        if len(found) > 2:
            lines.append(f"{name}, a task")
            for field, what in COSTS.items():
                cells = [human(getattr(found[system], field) if system in found else None) for system in EVERYONE]
                lines.append(f"  {what:18}" + "".join(f"{cell:>12}" for cell in cells))
    return [*lines, ""] if lines else []


def systems_of(rows: list[Row], workload: str) -> dict[str, float]:
    """The rates of a workload by system."""
    return {
        row.side: row.value
        for row in rows
        if row.workload == workload and row.side in EVERYONE and row.value is not None and row.point is None
    }
