"""What was measured: rows, printed as they come, and written as CSV."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TextIO

from .cost import Cost


@dataclass
class Row:
    """One measured value, and what it means."""

    family: str
    workload: str
    side: str  # what was measured: a system, or a variant of the workload
    value: float | None = None
    unit: str = "tasks/s"
    low: float | None = None  # the least and the most of all rounds
    high: float | None = None
    ratio: float | None = None  # of the workload's first side to this one
    target: str = ""
    met: bool | None = None
    note: str = ""  # why there is no value, or what else is to be known
    point: float | None = None  # where it belongs on the plot's axis
    cost: Cost | None = None


def human(value: float | None) -> str:
    """A number with as many digits as one reads."""
    if value is None or value != value:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def verdict(row: Row) -> str:
    """The last column: whether the target was met."""
    return {None: "", True: "met", False: "missed"}[row.met]


HEADINGS = ("workload", "measured", "value", "unit", "all rounds", "ratio", "target", "")
WIDTHS = (22, 30, 11, 9, 19, 6, 14, 6)
RIGHT = {2, 4, 5}


def line(cells: Iterable[str]) -> str:
    """One line of the table."""
    return " ".join(
        cell.rjust(width) if at in RIGHT else cell.ljust(width)
        for at, (cell, width) in enumerate(zip(cells, WIDTHS, strict=True))
    ).rstrip()


def cells(row: Row, first: bool) -> tuple[str, ...]:
    """A row as the table shows it. Only the first of a workload says its name."""
    spread = "" if row.low is None or row.low == row.high else f"{human(row.low)}..{human(row.high)}"
    return (
        row.workload if first else "",
        row.side,
        human(row.value),
        row.unit if row.value is not None else "",
        spread,
        "" if row.ratio is None else f"{row.ratio:.2f}",
        row.target,
        verdict(row),
    )


class Table:
    """Prints rows as they come, to the user and into a file."""

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self.last = ""
        self.rows: list[Row] = []

    def say(self, text: str = "") -> None:
        """One line."""
        print(text, flush=True)
        print(text, file=self.file, flush=True)

    def head(self) -> None:
        """The headings."""
        self.say(line(HEADINGS))
        self.say(line("-" * width for width in WIDTHS))

    def add(self, row: Row) -> None:
        """One row, with its note below it."""
        self.say(line(cells(row, row.workload != self.last)))
        if row.note:
            self.say(" " * (WIDTHS[0] + 3) + row.note)
        self.last = row.workload
        self.rows.append(row)

    def summary(self) -> str:
        """How many of the targets were met."""
        judged = [row for row in self.rows if row.met is not None]
        missed = [row.workload for row in judged if not row.met]
        names = f"; missed: {', '.join(dict.fromkeys(missed))}" if missed else ""
        return f"{len(judged) - len(missed)} of {len(judged)} targets met{names}"


def write_csv(path: Path, rows: Iterable[Row]) -> None:
    """All rows, with all that is known of each."""
    names = [field.name for field in fields(Row) if field.name != "cost"] + [field.name for field in fields(Cost)]
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        for row in rows:
            cells = asdict(row)
            writer.writerow(cells | (cells.pop("cost") or {}))


class Progress:
    """Says on standard error what runs now; on a terminal in one line that is replaced."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.number = 0
        self.workload = ""
        self.terminal = sys.stderr.isatty()

    def begin(self, workload: str) -> None:
        """The next workload."""
        self.number += 1
        self.workload = workload
        self.step("")

    def step(self, text: str) -> None:
        """A part of it."""
        message = f"[{self.number}/{self.total}] {self.workload}" + (f": {text}" if text else "")
        if self.terminal:
            print(f"\r\033[K{message[:100]}", end="", file=sys.stderr, flush=True)
        else:
            print(message, file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Makes room for a line of the table."""
        if self.terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
