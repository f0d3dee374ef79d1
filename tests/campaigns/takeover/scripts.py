"""What comes in: a few records per part, the same for every topology, in event time's seconds.

Records of two topics that are there at the same time may be taken in any order, and so may the
answers that a foreign-key join gives itself. A part is therefore sent in chunks, each after the one
before was worked off; what comes out is then the same every time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from tests.campaigns.takeover.topologies import READS

SEED = 7
RECORDS_PER_PART = 24
KEYS = "abc"
#: what foreign keys, prefixes and groups are made of
LETTERS = "abcx"


class Input(NamedTuple):
    """One record of ``left`` or ``right``."""

    topic: str
    key: str
    value: str
    timestamp_ms: int


#: what may be there at the same time
Chunk = list[Input]


def parts(count: int) -> list[list[Input]]:
    """So many parts; event time goes on from one to the next, and back within them now and then."""
    rng = random.Random(SEED)
    found = []
    now_ms = 1_000
    for part in range(count):
        records = []
        for number in range(RECORDS_PER_PART):
            now_ms += rng.choice((100, 700, 2_300))
            late_ms = rng.choice((0, 0, 0, 0, 1_500, 9_000))
            topic = "right" if number % 3 == 0 else "left"
            value = f"{rng.choice(LETTERS)}{part}{number}"
            key = rng.choice(KEYS if topic == "left" else LETTERS)
            records.append(Input(topic, key, value, max(1, now_ms - late_ms)))
        found.append(records)
    return found


def script(topology: str, count: int) -> list[list[Chunk]]:
    """So many parts for a topology, in chunks."""
    return [
        list(_chunks(topology, part, is_first=number == 0))
        for number, part in enumerate(parts(count))
    ]


def _chunks(topology: str, part: list[Input], *, is_first: bool) -> Iterator[Chunk]:
    """Halves of each topic; of foreign keys, each key once, and one by one for several tasks."""
    half = len(part) // 2
    for records in (part[:half], part[half:]):
        for topic in ("right", "left"):
            is_empty = topology == "empty-table-join" and topic == "right" and is_first
            if is_empty or topic not in READS[topology]:
                continue
            wanted = [record for record in records if record.topic == topic]
            if topology == "foreign-key-join":
                yield from _by_key(wanted)
            elif topology == "windowed-again":
                yield from ([record] for record in wanted)
            else:
                yield wanted


def _by_key(records: list[Input]) -> Iterator[Chunk]:
    chunk: dict[str, Input] = {}
    for record in records:
        if record.key in chunk:
            yield list(chunk.values())
            chunk = {}
        chunk[record.key] = record
    yield list(chunk.values())
