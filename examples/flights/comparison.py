"""Are two tables of delays the same, row by row and figure by figure?

A table is a dictionary from a row's key to its figures, whatever it was read from: the reference's
frames, the rows that instances hold, what Spark read from the changelogs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

FIGURES = ("flights", "without_delay", "minutes", "squares", "longest")

Key = tuple[Any, ...]
Table = dict[Key, tuple[Any, ...]]


def carrier_hours(rows: Iterable[tuple[str, int, int, Mapping[str, Any]]]) -> Table:
    """Key: carrier, start and end in ms. Figures: the airline's name, then FIGURES."""
    return _unique(((carrier, start, end), value) for carrier, start, end, value in rows)


def model_totals(rows: Iterable[tuple[str, Mapping[str, Any]]]) -> Table:
    """Key: the model. Figures: the model again, then FIGURES."""
    return _unique(((model,), value) for model, value in rows)


def reference_table(frame: pl.DataFrame, keys: tuple[str, ...], name: str) -> Table:
    """A frame of the reference as a table."""
    columns = frame.select(*keys, pl.col(name).alias("name_"), *FIGURES)
    return {row[: len(keys)]: row[len(keys) :] for row in columns.iter_rows()}


def differences(expected: Table, found: Table, *, most: int = 5) -> list[str]:
    """What differs, in words; the list is empty exactly if the tables are equal."""
    told = [f"{key}: missing, expected {row}" for key, row in expected.items() if key not in found]
    told += [f"{key}: {row} is too many" for key, row in found.items() if key not in expected]
    told += [
        f"{key}: expected {row}, found {found[key]}"
        for key, row in expected.items()
        if key in found and found[key] != row
    ]
    return told if len(told) <= most else [*told[:most], f"and {len(told) - most} more"]


def _unique(rows: Iterable[tuple[Key, Mapping[str, Any]]]) -> Table:
    table: Table = {}
    for key, value in rows:
        if key in table:
            raise ValueError(f"{key} is there twice: two instances hold the same partition")
        table[key] = (value["name"], *(value[figure] for figure in FIGURES))
    return table
