"""One plot for each family: bars for its workloads, or lines where they differ by a number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from .results import Row, human

KNOWN = {  # the same in every plot
    "scylla": "#2364aa",
    "floor": "#9aa5b1",
    "plain": "#e8833a",
    "pgmq": "#3a9e5c",
    "graphile": "#b0478f",
    "pgboss": "#c9a227",
}
COLOURS = ("#7a5cc0", "#2a9d8f", "#bc5b5b", "#5f6b76", "#8d99ae", "#6a994e")
WIDTH, LEFT, RIGHT, TOP = 860, 230, 120, 44
STYLE = (
    "text { font: 13px sans-serif; fill: #1f2933 } .small { font-size: 11px; fill: #52606d } .title { font-size: 17px }"
)


def plot(family: str, what: Mapping[str, str], rows: Sequence[Row]) -> str:
    """The family's plot as an SVG document; `what` says what each workload measures."""
    shown = [row for row in rows if row.value is not None and row.value == row.value and row.side != "best peer"]
    points = {row.point for row in shown}
    draw = lines if len(points) > 1 and None not in points else bars
    return draw(family, what, shown)


def document(height: float, title: str, parts: Iterable[str]) -> str:
    """The parts, with a title above them."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}">',
            f'<style>{STYLE}</style><rect width="100%" height="100%" fill="white"/>',
            text(20, 26, title, "title"),
            *parts,
            "</svg>\n",
        ]
    )


def text(x: float, y: float, content: str, style: str = "", anchor: str = "start") -> str:
    """One line of text."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{style}" text-anchor="{anchor}">{escape(content)}</text>'


def colours(rows: Iterable[Row]) -> dict[str, str]:
    """A colour for each side, in the order of their appearance."""
    sides = dict.fromkeys(row.side for row in rows)
    return {side: KNOWN.get(side, COLOURS[at % len(COLOURS)]) for at, side in enumerate(sides)}


def bars(family: str, what: Mapping[str, str], rows: Sequence[Row]) -> str:
    """A group of bars for each workload. Each group has its own scale: rates of different sizes differ widely."""
    parts, y, colour = [], float(TOP), colours(rows)
    for workload in dict.fromkeys(row.workload for row in rows):
        group = [row for row in rows if row.workload == workload]
        most = max((row.high or row.value or 0) for row in group) or 1
        y += 18
        parts.append(text(20, y, workload) + text(LEFT, y, what.get(workload, ""), "small"))
        y += 8
        for row in group:
            assert row.value is not None
            length = (WIDTH - LEFT - RIGHT) * row.value / most
            parts.append(text(LEFT - 8, y + 12, row.side, "small", "end"))
            parts.append(
                f'<rect x="{LEFT}" y="{y:.1f}" width="{max(length, 1):.1f}" height="15" fill="{colour[row.side]}"/>'
            )
            parts.append(text(LEFT + length + 6, y + 12, f"{human(row.value)} {row.unit}", "small"))
            y += 19
        y += 6
    return document(y + 14, family, parts)


def lines(family: str, what: Mapping[str, str], rows: Sequence[Row]) -> str:
    """A line for each side; the numbers are set out evenly, since they grow by factors."""
    parts, colour = [], colours(rows)
    height, left, right = 300.0, 80, 150
    points = sorted({row.point for row in rows if row.point is not None})
    most = max(row.high or row.value or 0 for row in rows) or 1

    def x(point: float | None) -> float:
        return left + (WIDTH - left - right) * points.index(point or 0) / (len(points) - 1)

    def y(value: float | None) -> float:
        return TOP + height * (1 - (value or 0) / most)

    for quarter in range(5):
        at = y(most * quarter / 4)
        parts.append(f'<line x1="{left}" y1="{at:.1f}" x2="{WIDTH - right}" y2="{at:.1f}" stroke="#e4e7eb"/>')
        parts.append(text(left - 8, at + 4, human(most * quarter / 4), "small", "end"))
    parts += [text(x(point), TOP + height + 20, f"{point:,.0f}", "small", "middle") for point in points]
    for side, shade in colour.items():
        of_side = [row for row in rows if row.side == side]
        path = " ".join(f"{x(row.point):.1f},{y(row.value):.1f}" for row in of_side)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{shade}" stroke-width="2"/>')
        parts += [f'<circle cx="{x(r.point):.1f}" cy="{y(r.value):.1f}" r="3" fill="{shade}"/>' for r in of_side]
        parts.append(text(WIDTH - right + 10, y(of_side[-1].value) + 4, f"{side} ({of_side[-1].unit})", "small"))
    return document(TOP + height + 44, f"{family}: {what.get(rows[0].workload, '')}", parts)
