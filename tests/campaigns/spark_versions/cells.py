"""What came out of each check in each version and mode, and whether it may."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

SAME, DIFFERENT, REFUSED = "same", "DIFFERENT", "refused"

#: what earlier versions cannot: since when it can be done, and what is said before
SINCE = {
    "filter_handed_down": ("4.1", "Spark hands no filters to Python sources"),
    "limit_of_offsets": ("4.2", "maxOffsetsPerTrigger needs Spark 4.2"),
    "limit_of_records": ("4.2", "maxOffsetsPerTrigger needs Spark 4.2, as other bounds do"),
}


class Cell(NamedTuple):
    """One check in one version and mode."""

    release: str
    mode: str
    check: str
    kind: str
    said: str = ""


def judged(
    release: str, mode: str, check: str, told: Mapping[str, Any] | None, wanted: Any
) -> Cell:
    """The cell of what the program told, which is nothing where it ended before.

    >>> judged("4.3", "classic", "key_value", {"found": [1]}, [2])[3:]
    ('DIFFERENT', 'wanted [2], found [1]')
    >>> judged("4.1", "classic", "limit_of_records", {"refused": "no"}, [])[3:]
    ('DIFFERENT', 'refused in other words: no')
    """

    def cell(kind: str, said: str = "") -> Cell:
        return Cell(release, mode, check, kind, said)

    since, words = SINCE.get(check, ("", ""))
    may_refuse = numbers(release) < numbers(since)
    if told is None:
        return cell(DIFFERENT, "the program ended before")
    if "refused" in told:
        if not may_refuse:
            return cell(DIFFERENT, f"refused: {told['refused'][:500]}")
        if words not in told["refused"]:
            return cell(DIFFERENT, f"refused in other words: {told['refused']}")
        return cell(REFUSED, words)
    if may_refuse:
        return cell(DIFFERENT, f"it works, and was to be refused before {since}")
    if told["found"] != wanted:
        return cell(DIFFERENT, f"wanted {wanted}, found {told['found']}")
    return cell(SAME)


def numbers(release: str) -> tuple[int, ...]:
    """To compare by: 4.10 is behind 4.9."""
    return tuple(int(part) for part in release.split(".") if part)


def table(cells: Iterable[Cell]) -> str:
    """A line for each check, a column for each version and mode."""
    columns = list(dict.fromkeys((one.release, one.mode) for one in cells))
    kinds = {(one.check, one.release, one.mode): one.kind for one in cells}
    lines = [f"{'':28}" + "".join(f"{release} {mode:10}" for release, mode in columns)]
    for check in dict.fromkeys(one.check for one in cells):
        row = (kinds[check, *column] for column in columns)
        lines.append(f"{check:28}" + "".join(f"{kind:14}" for kind in row))
    return "\n".join(lines)


def figures(
    cells: Iterable[Cell], versions: Iterable[str], missing: Iterable[str]
) -> dict[str, Any]:
    """The last line."""
    refused = Counter(f"{one.release} {one.check}" for one in cells if one.kind == REFUSED)
    return {
        "versions": list(versions),
        "not_in_the_index": list(missing),
        "cells": len(list(cells)),
        "wrong": sum(one.kind == DIFFERENT for one in cells),
        "refused": dict(refused),
    }
