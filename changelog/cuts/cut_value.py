"""A cut as a value: printed, stored, and given back as the option ``cut``. Pure.

As text it is JSON::

    {"version": 1,
     "positions": {changelog topic: {partition: next offset}},
     "inputs":    {input topic: {partition: next offset}},
     "clocks":    {task: {clock: ms}},
     "topic_ids": {topic: id},
     "starts":    {changelog topic: {partition: first offset}},
     "in_flight": {repartition topic: {partition: offsets}},
     "taken_at_ms": wall clock}

Only ``positions`` is needed; plain offsets, ``{topic: {partition: next offset}}``, are a cut too,
whose topics nobody can tell from others of their names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_VERSION = 1

Offsets = Mapping[str, Mapping[int, int]]
"""Topic to partition to next offset."""


@dataclass(frozen=True)
class CutValue:
    """The state of an application's stores at one commit of each task."""

    positions: Offsets
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    inputs: Offsets = field(default_factory=dict)
    clocks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Task to clock to ms; expired windows are told by them. ``rows:STORE`` is a number of rows."""
    taken_at_ms: int = 0
    """Wall clock when it was the newest; 0 if unknown."""
    in_flight: Offsets = field(default_factory=dict)
    """Repartition topic to partition to how many offsets of it were written and not yet counted.
    Markers of transactions are among them, so with nothing under way it may be 1 or 2."""
    starts: Offsets = field(default_factory=dict)
    """Where the changelogs began; what has gone since was there at the cut."""

    def __str__(self) -> str:
        return json.dumps(
            {
                "version": _VERSION,
                "positions": self.positions,
                "inputs": self.inputs,
                "clocks": self.clocks,
                "topic_ids": self.topic_ids,
                "in_flight": self.in_flight,
                "starts": self.starts,
                "taken_at_ms": self.taken_at_ms,
            },
            sort_keys=True,
        )


def parse_cut(text: str) -> CutValue:
    """The cut of a text. Raises ValueError, TypeError or AttributeError if it is none.

    >>> parse_cut('{"shop-spend-changelog": {"0": 42}}').positions
    {'shop-spend-changelog': {0: 42}}
    """
    found: dict[str, Any] = json.loads(text)
    if "version" not in found:
        return CutValue(offsets_of(found))
    if found["version"] != _VERSION:
        raise ValueError(f"a cut of version {found['version']}; {_VERSION} is known")
    return CutValue(
        offsets_of(found["positions"]),
        {topic: str(topic_id) for topic, topic_id in found.get("topic_ids", {}).items()},
        offsets_of(found.get("inputs", {})),
        {
            task: {name: int(ms) for name, ms in clocks.items()}
            for task, clocks in found.get("clocks", {}).items()
        },
        int(found.get("taken_at_ms", 0)),
        offsets_of(found.get("in_flight", {})),
        offsets_of(found.get("starts", {})),
    )


def parse_offsets(text: str) -> Offsets:
    """``{"topic": {"0": 42}}`` with integer partitions; raises as ``parse_cut`` does."""
    return offsets_of(json.loads(text))


def offsets_of(parsed: Mapping[str, Any]) -> Offsets:
    """The same of plain data."""
    return {
        topic: {int(partition): _offset(offset) for partition, offset in partitions.items()}
        for topic, partitions in parsed.items()
    }


def _offset(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"not an offset: {value!r}")
    return value
