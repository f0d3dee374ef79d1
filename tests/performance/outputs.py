"""Whether the outputs of a run are right."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec

from tests.performance.events import Expected, ExpectedWindows, Total
from tests.performance.workload import Workload

_decode = msgspec.json.Decoder().decode


class OutputRecord(Protocol):
    """A record as the client returns it."""

    def key(self) -> Any: ...
    def value(self) -> Any: ...


def check_outputs(
    workload: Workload,
    records: Iterable[OutputRecord],
    expected: Expected,
    windows: ExpectedWindows | None = None,
) -> tuple[int, bool]:
    """The number of outputs, and whether they are what was expected."""
    if workload.program == "passthrough":
        count = sum(1 for _ in records)
        return count, count == expected.passed
    if workload.program == "join":
        count = enriched = 0
        for record in records:
            count += 1
            enriched += "name" in _decode(record.value())
        return count, count == enriched == expected.records
    if windows is not None:
        return _check_windows(records, windows)
    count, last = _last_totals(records)
    return count, _agree(last, expected.totals)


def _last_totals(records: Iterable[OutputRecord]) -> tuple[int, dict[str, Total]]:
    count = 0
    last: dict[str, Total] = {}
    for record in records:
        count += 1
        if (value := record.value()) is not None:
            row = _decode(value)
            last[_text(record.key())] = row["count"], row["sum"]
    return count, last


def _check_windows(records: Iterable[OutputRecord], expected: ExpectedWindows) -> tuple[int, bool]:
    count = 0
    last: dict[str, dict[int, Total]] = {}
    for record in records:
        count += 1
        if (value := record.value()) is not None:
            row = _decode(value)
            of_key = last.setdefault(_text(record.key()), {})
            of_key[row["start"]] = row["count"], row["sum"]
    if last.keys() != expected.by_key.keys():
        return count, False
    return count, all(_agree(last[key], rows) for key, rows in expected.by_key.items())


def _agree(found: Mapping[Any, Total], wanted: Mapping[Any, Total]) -> bool:
    """Sums of floats depend on the order of adding, counts do not."""
    return found.keys() == wanted.keys() and all(
        found[key][0] == count and math.isclose(found[key][1], total, rel_tol=1e-6)
        for key, (count, total) in wanted.items()
    )


def _text(key: bytes) -> str:
    """Some libraries write text keys as JSON."""
    return key.decode().strip('"')
