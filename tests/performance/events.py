"""Input records, and what the outputs of each workload must add up to.

Keys are drawn log-uniformly, which is Zipf with exponent 1: the hottest of 100,000 has 6 % of the
records, and a million records hold about 75,000 different ones. Event time moves one millisecond
per record; every tenth record is up to five seconds late, none so late that it would be dropped.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

_SEED = 42
_LATE_SHARE = 0.1
_LATE_MAX_MS = 5_000
WINDOW_MS = 10_000
#: passthrough keeps amounts above
LEAST_AMOUNT = 10

#: count and sum
Total = tuple[int, float]


class Event(NamedTuple):
    """One input record."""

    key: str
    amount: float
    timestamp: int
    value: bytes


class Expected(msgspec.Struct):
    """What is right for one input topic."""

    cluster_id: str
    records: int
    base_ms: int
    #: records that passthrough keeps
    passed: int
    totals: dict[str, Total]


class ExpectedWindows(msgspec.Struct):
    """Count and sum per key and window start; large, so a file of its own."""

    by_key: dict[str, dict[int, Total]]

    def __len__(self) -> int:
        return sum(map(len, self.by_key.values()))


def key_name(number: int) -> str:
    """The key of a rank, of equal length for all."""
    return f"u{number:06d}"


def event_value(key: str, amount: float, timestamp: float, page: str) -> bytes:
    """The JSON of an event, about 120 bytes."""
    return f'{{"user":"{key}","amount":{amount!r},"ts":{timestamp},"page":"{page}"}}'.encode()


def padded(value: bytes, size: int) -> bytes:
    """An event of at least ``size`` bytes: the rest is in a field that nobody reads.

    >>> padded(b'{"a":1}', 20)
    b'{"a":1,"pad":"xxxx"}'
    """
    missing = size - len(value) - len(b',"pad":""')
    return value if missing <= 0 else value[:-1] + b',"pad":"' + b"x" * missing + b'"}'


def random_page(rng: random.Random) -> str:
    """A part of the value that no workload reads."""
    category, item, variant = rng.randrange(1000), rng.randrange(1_000_000), rng.randrange(100)
    return f"/shop/category-{category:03d}/item-{item:06d}/variant-{variant:02d}?ref=home"


def random_key(rng: random.Random, keys: int) -> str:
    """A log-uniform rank: P(rank <= k) = ln k / ln keys."""
    return key_name(int(keys ** rng.random()) - 1)


def write_events(
    records: int, keys: int, cluster_id: str, send: Callable[[Event], None]
) -> tuple[Expected, ExpectedWindows]:
    """Make all events of an input topic, in order, and add up what is expected."""
    rng = random.Random(_SEED)
    base_ms = int(time.time() * 1000) - records - 10_000
    expected = Expected(cluster_id, records, base_ms, 0, {})
    windows = ExpectedWindows({})
    for i in range(records):
        timestamp = base_ms + i
        if rng.random() < _LATE_SHARE:
            timestamp -= rng.randrange(_LATE_MAX_MS + 1)
        key = random_key(rng, keys)
        amount = round(rng.random() * 100, 2)
        send(Event(key, amount, timestamp, event_value(key, amount, timestamp, random_page(rng))))
        expected.passed += amount > LEAST_AMOUNT
        count, total = expected.totals.get(key, (0, 0.0))
        expected.totals[key] = count + 1, total + amount
        of_key = windows.by_key.setdefault(key, {})
        start = timestamp - timestamp % WINDOW_MS
        count, total = of_key.get(start, (0, 0.0))
        of_key[start] = count + 1, total + amount
    return expected, windows
