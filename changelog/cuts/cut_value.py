"""A cut as a value: printed, stored, and passed as the option ``cut``.

As text it is JSON::

    {"version": 1,
     "positions": {changelog topic: {partition: next offset}},
     "inputs":    {input topic: {partition: next offset}},
     "clocks":    {task: {clock: ms}},
     "topic_ids": {topic: id},
     "starts":    {changelog topic: {partition: first offset}},
     "in_flight": {repartition topic: {partition: offsets}},
     "taken_at_ms": wall clock}

Only ``positions`` is required. Plain offsets, ``{topic: {partition: next offset}}``, are a cut,
too, but without topic ids a topic that was created again under the same name is not detected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec

from logstate.contracts.errors import UNDECODABLE
from logstate.contracts.topic_names import PARTITIONS_MAX, TOPIC_NAME_PATTERN

_VERSION = 1
#: the last millisecond that a date has
TIME_MAX_MS: Final = 253_402_300_799_999
TopicName = Annotated[str, msgspec.Meta(pattern=TOPIC_NAME_PATTERN)]
Partition = Annotated[int, msgspec.Meta(ge=0, le=PARTITIONS_MAX)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
EventTime = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
WallClock = Annotated[int, msgspec.Meta(ge=0, le=TIME_MAX_MS)]

Offsets = Mapping[str, Mapping[int, int]]
"""Topic to partition to next offset."""


@dataclass(frozen=True)
class CutValue:
    """The state of an application's stores at one commit of each task."""

    positions: Offsets
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    inputs: Offsets = field(default_factory=dict)
    clocks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Task to clock to ms; they determine expired windows. ``rows:STORE`` is a number of rows."""
    taken_at_ms: int = 0
    """Wall clock when it was the newest cut; 0 if unknown."""
    in_flight: Offsets = field(default_factory=dict)
    """Repartition topic to partition to the number of offsets written and not yet counted.
    Transaction markers are included, so without records in flight it may be 1 or 2."""
    starts: Offsets = field(default_factory=dict)
    """Where the changelogs began; records deleted since were present at the cut."""

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


class CutRecord(msgspec.Struct):
    """The JSON of a cut."""

    positions: dict[TopicName, dict[Partition, Offset]]
    version: int = _VERSION
    topic_ids: dict[TopicName, str] = {}
    inputs: dict[TopicName, dict[Partition, Offset]] = {}
    clocks: dict[str, dict[str, EventTime]] = {}
    taken_at_ms: WallClock = 0
    in_flight: dict[TopicName, dict[Partition, Offset]] = {}
    starts: dict[TopicName, dict[Partition, Offset]] = {}

    def value(self) -> CutValue:
        """Return the cut as a value. Raises ValueError for another version."""
        if self.version != _VERSION:
            raise ValueError(f"a cut of version {self.version}; {_VERSION} is known")
        return CutValue(
            self.positions,
            self.topic_ids,
            self.inputs,
            self.clocks,
            self.taken_at_ms,
            self.in_flight,
            self.starts,
        )


def parse_cut(text: str) -> CutValue:
    """Return the cut of a text. Raises ValueError if the text is not a cut.

    >>> parse_cut('{"shop-spend-changelog": {"0": 42}}').positions
    {'shop-spend-changelog': {0: 42}}
    """
    try:
        found = msgspec.json.decode(text)
        if isinstance(found, dict) and "version" not in found:
            return CutValue(parse_offsets(text))
        return msgspec.json.decode(text, type=CutRecord).value()
    except UNDECODABLE as error:
        raise ValueError(f"not a cut: {error!s:.300}") from error


def parse_offsets(text: str) -> Offsets:
    """Parse ``{"topic": {"0": 42}}`` with integer partitions; raises as ``parse_cut`` does."""
    try:
        return msgspec.json.decode(text, type=dict[TopicName, dict[Partition, Offset]])
    except UNDECODABLE as error:
        raise ValueError(
            f'expected offsets by topic and partition, {{"topic": {{"0": 42}}}}: {error!s:.300}'
        ) from error
