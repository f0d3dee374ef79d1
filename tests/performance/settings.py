"""What one comparison is run with."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.performance.workload import Emit, Workload

PARTITIONS = 4


@dataclass(frozen=True)
class Settings:
    """The same for both sides of every pair."""

    workload: Workload
    bootstrap: str
    #: topics' expectations, state directories and logs
    work: Path
    records: int = 1_000_000
    keys: int = 100_000
    partitions: int = PARTITIONS
    #: processes of logstate, threads of Kafka Streams
    workers: int = 1
    #: events are filled up to this size; as they are where they are longer
    record_bytes: int = 0
    commit_interval_ms: int = 1_000
    #: Kafka Streams' record cache where results are held back until the commit
    cache_mb: int = 10
    #: one bound for both sides: that record cache, and logstate's blocks and unflushed writes
    cache_mib: int | None = None
    #: of logstate's and Kafka Streams' producers; the others' programs have their own
    linger_ms: int = 50
    jvm_options: tuple[str, ...] = ("-XX:+UseG1GC",)
    #: further ``key=value`` settings of Kafka Streams
    kafka_streams: tuple[str, ...] = field(default=())
    limit_s: float = 180.0
    records_per_s: int = 5_000
    latency_s: int = 60
    broker_pid: int | None = None
    keeps: bool = False

    @property
    def fed_records(self) -> int:
        """How many records a steady rate gives."""
        return self.records_per_s * self.latency_s


@dataclass(frozen=True)
class Run:
    """One program running once. ``name`` is application id, consumer group and topic prefix."""

    name: str
    peer: str
    emit: Emit
    inputs: str
    table: str = ""

    @property
    def outputs(self) -> str:
        """The topic it writes to."""
        return f"{self.name}-out"
