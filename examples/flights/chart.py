"""What the figures say: a table and a chart, on the terminal and as a PNG file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.bar import Bar
from rich.console import Console
from rich.table import Table as RichTable

from examples.flights.comparison import Table

_BAR_COLUMNS = 36


class Summary(NamedTuple):
    """Delays of one airline or model; mean and deviation are minutes over the known delays."""

    name: str
    flights: int
    without_delay: int
    mean: float
    deviation: float
    longest: int | None


def summaries(table: Table) -> list[Summary]:
    """One per airline or model, the most flights first; the rows of its hours are added up."""
    rows = defaultdict(list)
    for name, *figures in table.values():
        rows[name].append(tuple(figures))
    found = [_summary(name, figures) for name, figures in rows.items()]
    return sorted(found, key=lambda summary: (-summary.flights, summary.name))


def print_table(console: Console, title: str, summaries: Iterable[Summary]) -> None:
    shown = RichTable(title=title, title_justify="left")
    shown.add_column("", no_wrap=True)
    for heading in ("flights", "no delay", "mean", "spread", "longest"):
        shown.add_column(heading, justify="right")
    for one in summaries:
        shown.add_row(
            one.name,
            f"{one.flights:,}",
            f"{one.without_delay:,}",
            f"{one.mean:.1f}",
            f"{one.deviation:.1f}",
            "none" if one.longest is None else f"{one.longest:,}",
        )
    console.print(shown)


def print_chart(console: Console, title: str, summaries: Iterable[Summary]) -> None:
    ordered = sorted(summaries, key=lambda summary: -summary.mean)
    most = max((one.mean for one in ordered), default=0.0)
    grid = RichTable.grid(padding=(0, 1))
    grid.title, grid.title_justify = title, "left"
    for one in ordered:
        bar = Bar(size=max(most, 1.0), begin=0, end=max(one.mean, 0.0), width=_BAR_COLUMNS)
        grid.add_row(one.name, bar, f"{one.mean:.1f}")
    console.print(grid)


def write_chart(path: Path, airlines: list[Summary], models: list[Summary]) -> None:
    """Two panels of bars, as PNG."""
    figure = Figure(figsize=(12, 6), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle("Departure delays out of New York, 2013: mean minutes")
    for axes, title, shown in zip(
        figure.subplots(1, 2), ("airlines", "models of plane"), (airlines, models), strict=True
    ):
        ordered = sorted(shown, key=lambda summary: summary.mean)
        bars = axes.barh([one.name for one in ordered], [one.mean for one in ordered])
        axes.bar_label(bars, [f"{one.mean:.1f} ({one.flights:,})" for one in ordered], padding=3)
        axes.set_title(f"{title} (flights)")
        axes.margins(x=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)


def _summary(name: str, rows: list[tuple[Any, ...]]) -> Summary:
    flights, without_delay, minutes, squares = (sum(row[n] for row in rows) for n in range(4))
    known = max(flights - without_delay, 1)
    mean = minutes / known
    longest = max((row[4] for row in rows if row[4] is not None), default=None)
    deviation = sqrt(max(squares / known - mean * mean, 0))
    return Summary(name, flights, without_delay, mean, deviation, longest)
