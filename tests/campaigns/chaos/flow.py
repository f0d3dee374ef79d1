"""The application under fault: a running aggregate, a window, a join, and a repartition.

Every aggregate carries a count and a checksum of what went in, in order, so one right value proves
the whole history of its key.
"""

from __future__ import annotations

import zlib
from datetime import timedelta
from pathlib import Path
from typing import Literal

from logstate.app.application import Application
from logstate.contracts.partitioner import partition_of
from logstate.contracts.records import Windowed
from logstate.topology import JoinWindows, StreamsBuilder, Topology, TumblingWindows

PARTITIONS = 4
INPUTS = ("orders", "payments")
OUTPUTS = ("running", "windowed", "paid", "regions")
REGIONS = 7
WINDOW_MS, GRACE_MS = 5_000, 2_000
#: an order and its payment have the same event time, and no others of the user are so near
JOIN_MS = 4
#: payments may be read long after their orders: the tasks wait for nobody
JOIN_GRACE = timedelta(hours=1)

GroupProtocol = Literal["consumer", "classic"]


def checksum(aggregate: str, value: str) -> str:
    """Count and running checksum: ``"3:1f2e3d4c"``."""
    count, _, _ = aggregate.partition(":")
    return f"{int(count) + 1}:{zlib.crc32((aggregate + value).encode()):08x}"


def sequence_of(order: str) -> int:
    """``"o-12"`` -> 12."""
    return int(order.partition("-")[2])


def region_of(order: str) -> str:
    """Where an order counts."""
    return f"r{sequence_of(order) % REGIONS}"


def add_to_region(aggregate: str, order: str) -> str:
    """Count and sum: the same whatever the order in which source partitions are read."""
    count, _, total = aggregate.partition(":")
    return f"{int(count) + 1}:{int(total) + sequence_of(order)}"


def window_key(user: str, start_ms: int) -> str:
    """The key of a window's output."""
    return f"{user}@{start_ms}"


def topology(prefix: str) -> Topology:
    """The topology; every topic carries the prefix of one run."""
    builder = StreamsBuilder()
    orders = builder.stream(f"{prefix}-orders", key=str, value=str)
    payments = builder.stream(f"{prefix}-payments", key=str, value=str)
    by_user = orders.group_by_key()
    running = by_user.aggregate(
        lambda: "0:", lambda _, value, agg: checksum(agg, value), value=str, store="per-user"
    )
    running.to_stream().to(f"{prefix}-running", key=str, value=str)
    windows = TumblingWindows(
        size=timedelta(milliseconds=WINDOW_MS), grace=timedelta(milliseconds=GRACE_MS)
    )
    windowed = by_user.windowed_by(windows).aggregate(
        lambda: "0:", lambda _, value, agg: checksum(agg, value), value=str, store="windows"
    )
    windowed.to_stream(_plain_key, key=str).to(
        f"{prefix}-windowed", key=str, value=str, partitioner=_by_user
    )
    pairs = JoinWindows.symmetric(timedelta(milliseconds=JOIN_MS), grace=JOIN_GRACE)
    paid = orders.join(payments, lambda order, pay: f"{order}={pay}", windows=pairs, name="pay")
    paid.to(f"{prefix}-paid", key=str, value=str)
    by_region = orders.group_by(lambda _, order: region_of(order), name="by-region", key=str)
    regions = by_region.aggregate(
        lambda: "0:0", lambda _, order, agg: add_to_region(agg, order), value=str, store="regions"
    )
    regions.to_stream().to(f"{prefix}-regions", key=str, value=str)
    return builder.build()


def application(
    bootstrap: str,
    prefix: str,
    state_dir: Path,
    protocol: GroupProtocol = "consumer",
    standbys: int = 0,
) -> Application:
    """An instance; it commits and checkpoints often, so that faults hit both."""
    return Application(
        topology(prefix),
        application_id=prefix,
        bootstrap=bootstrap,
        state_dir=state_dir,
        commit_interval=timedelta(milliseconds=50),
        checkpoint_interval=timedelta(milliseconds=300),
        group_protocol=protocol,
        kafka={"session.timeout.ms": 2_000} if protocol == "classic" else {},
        standby_replicas=standbys,
    )


def _plain_key(key: Windowed[str], _: str) -> str:
    return window_key(key.key, key.start_ms)


def _by_user(_: str, key: str, __: object, partitions: int) -> int:
    """Where the user's orders are, so that one task writes each output partition."""
    return partition_of(key.partition("@")[0].encode(), partitions)
