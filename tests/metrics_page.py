"""What docs/metrics.md takes from the catalogue: the table of all metrics."""

from __future__ import annotations

from collections.abc import Iterator

from logstate.metrics.catalogue import CATALOGUE
from tests.architecture_page import between


def rendered(page: str) -> str:
    """The page with the table as it has to be today."""
    return between(page, "metrics", "\n".join(_table()))


def _table() -> Iterator[str]:
    yield "| metric | kind | unit | labels | |"
    yield "|---|---|---|---|---|"
    for metric in CATALOGUE:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        yield f"| `{metric.name}` | {metric.kind} | {metric.unit} | {labels} | {metric.meaning} |"
