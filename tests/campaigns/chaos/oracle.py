"""What the outputs and stores must be, calculated sequentially from the input logs.

Operators that one source partition feeds are known value by value, in order. The join is known as a
set of pairs. Behind the repartition the order of source partitions is anybody's, so there each step
of a region is checked: its counts go 1, 2, 3, …, and its sums grow by exactly the region's orders.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.campaigns.chaos.flow import (
    GRACE_MS,
    JOIN_MS,
    WINDOW_MS,
    add_to_region,
    checksum,
    region_of,
    sequence_of,
    window_key,
)


class Entry(NamedTuple):
    """One record of a log."""

    key: str
    value: str
    timestamp: int


Log = Mapping[int, Sequence[Entry]]


class Expected(NamedTuple):
    """Outputs per partition, and the final rows of the stores."""

    running: dict[int, list[tuple[str, str]]]
    windowed: dict[int, list[tuple[str, str]]]
    paid: Counter[tuple[str, str]]
    regions: dict[str, list[int]]
    #: window key -> final value, of windows that are not closed
    open_windows: dict[str, str]
    #: window key -> final value, of all
    windows: dict[str, str]
    late: int

    @property
    def count(self) -> dict[str, int]:
        """Number of records of each output topic."""
        return {
            "running": sum(map(len, self.running.values())),
            "windowed": sum(map(len, self.windowed.values())),
            "paid": self.paid.total(),
            "regions": sum(map(len, self.regions.values())),
        }

    def stores(self) -> dict[str, dict[str, str]]:
        """Final rows of the key-value stores."""
        per_user = {key: value for log in self.running.values() for key, value in log}
        regions = {}
        for region, numbers in self.regions.items():
            aggregate = "0:0"
            for number in numbers:
                aggregate = add_to_region(aggregate, f"o-{number}")
            regions[region] = aggregate
        return {"per-user": per_user, "regions": regions}


def expected(orders: Log, payments: Log) -> Expected:
    """Calculate it."""
    found = Expected({}, {}, Counter(), defaultdict(list), {}, {}, 0)
    late = 0
    for partition, log in orders.items():
        per_user: dict[str, str] = {}
        found.running[partition] = []
        for order in log:
            per_user[order.key] = checksum(per_user.get(order.key, "0:"), order.value)
            found.running[partition].append((order.key, per_user[order.key]))
            found.regions[region_of(order.value)].append(sequence_of(order.value))
        found.windowed[partition], rows, open_rows, dropped = _windowed(log)
        found.windows.update(rows)
        found.open_windows.update(open_rows)
        late += dropped
        found.paid.update(_paid(log, payments.get(partition, ())))
    return found._replace(late=late)


def _windowed(
    log: Sequence[Entry],
) -> tuple[list[tuple[str, str]], dict[str, str], dict[str, str], int]:
    rows: dict[str, str] = {}
    starts: dict[str, int] = {}
    outputs = []
    stream_time = dropped = 0
    for order in log:
        stream_time = max(stream_time, order.timestamp)
        start = order.timestamp - order.timestamp % WINDOW_MS
        if start + WINDOW_MS <= stream_time - GRACE_MS:
            dropped += 1
            continue
        key = window_key(order.key, start)
        starts[key] = start
        rows[key] = checksum(rows.get(key, "0:"), order.value)
        outputs.append((key, rows[key]))
    still_open = {
        key: value
        for key, value in rows.items()
        if starts[key] + WINDOW_MS > stream_time - GRACE_MS
    }
    return outputs, rows, still_open, dropped


def _paid(orders: Sequence[Entry], payments: Sequence[Entry]) -> Counter[tuple[str, str]]:
    by_user: dict[tuple[str, int], list[Entry]] = defaultdict(list)
    for payment in payments:
        by_user[payment.key, payment.timestamp // 100].append(payment)
    pairs: Counter[tuple[str, str]] = Counter()
    for order in orders:
        bucket = order.timestamp // 100
        for near in (bucket - 1, bucket, bucket + 1):
            for payment in by_user.get((order.key, near), ()):
                if abs(payment.timestamp - order.timestamp) <= JOIN_MS:
                    pairs[order.key, f"{order.value}={payment.value}"] += 1
    return pairs


class Verdict:
    """Differences found, in numbers and in words."""

    def __init__(self) -> None:
        self.lost = 0
        self.duplicated = 0
        self.checked = 0
        self.story: list[str] = []

    def compare(self, what: str, wanted: Sequence[object], found: Sequence[object]) -> None:
        """Two sequences. What is in the wrong place counts as lost."""
        self.compare_sets(what, Counter(wanted), Counter(found))
        if Counter(wanted) == Counter(found) and list(wanted) != list(found):
            misplaced = sum(a != b for a, b in zip(wanted, found, strict=True))
            self.lost += misplaced
            self.story.append(f"{what}: {misplaced} values in the wrong order")

    def compare_sets(self, what: str, wanted: Counter[object], found: Counter[object]) -> None:
        """Two multisets."""
        self.checked += wanted.total()
        lost, duplicated = wanted - found, found - wanted
        self.lost += lost.total()
        self.duplicated += duplicated.total()
        if lost or duplicated:
            self.story.append(
                f"{what}: {lost.total()} missing, e.g. {list(lost)[:3]};"
                f" {duplicated.total()} too many, e.g. {list(duplicated)[:3]}"
            )


def judge(wanted: Expected, outputs: Mapping[str, Log], verdict: Verdict) -> None:
    """Compare every output value."""
    for topic, logs in (("running", wanted.running), ("windowed", wanted.windowed)):
        for partition in sorted({*logs, *outputs[topic]}):
            values = [(e.key, e.value) for e in outputs[topic].get(partition, ())]
            verdict.compare(f"{topic}[{partition}]", logs.get(partition, []), values)
    paid = Counter((e.key, e.value) for log in outputs["paid"].values() for e in log)
    verdict.compare_sets("paid", Counter(dict(wanted.paid)), Counter(dict(paid)))
    found: dict[str, list[str]] = defaultdict(list)
    for log in outputs["regions"].values():
        for entry in log:
            found[entry.key].append(entry.value)
    for region in sorted({*wanted.regions, *found}):
        _judge_region(region, wanted.regions.get(region, []), found[region], verdict)


def _judge_region(
    region: str, numbers: Sequence[int], values: Sequence[str], verdict: Verdict
) -> None:
    steps = [(int(count), int(total)) for count, _, total in (v.partition(":") for v in values)]
    counts = [count for count, _ in steps]
    verdict.compare(f"regions {region} counts", range(1, len(numbers) + 1), counts)
    added = [after - before for before, after in pairwise([0, *(total for _, total in steps)])]
    verdict.compare_sets(f"regions {region} orders", Counter(numbers), Counter(added))
