"""The settings of a worker, with the reasons for their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from logstate.contracts.compatibility import NOTHING_DECIDED, MigrationOptions
from logstate.contracts.processing import DEFAULT_EMIT_INTERVALS, EmitIntervals
from logstate.contracts.rocksdb_config import DEFAULT_ROCKSDB, RocksDbConfig

Guarantee = Literal["exactly_once", "at_least_once"]
ChangelogWrites = Literal["commit", "update"]
OnStateLoss = Literal["fail", "continue"]
OnDataLoss = Literal["fail", "continue"]


#: replayed in about a second
CHECKPOINT_BYTES = 64 << 20
#: for rows that equal those of the local store, over all tasks of an instance
CACHE_BYTES = 256 << 20
#: for fetched records that wait to be processed, in all partitions of a worker
BUFFERED_BYTES = 64 << 20
#: the client's default
MAX_POLL_INTERVAL_MS = 300_000
#: one abort is normal operation, a stall or a rebalance; a loop of them is a fault
ABORTS_MAX = 5
#: expired windows stay in their changelog for at least this time
PURGE_INTERVAL_MS = 30_000


@dataclass(frozen=True)
class WorkerConfig:
    """One worker's settings; times in milliseconds."""

    application_id: str
    transactional_id: str
    #: group.instance.id; None joins as a dynamic member
    instance_id: str | None = None
    guarantee: Guarantee = "exactly_once"
    changelog_writes: ChangelogWrites = "commit"
    #: Kafka Streams' default with exactly-once; the latency of outputs to read-committed readers
    commit_interval_ms: int = 100
    #: idle tasks commit this often: it proves that their rows miss nothing, tombstones included
    idle_commit_interval_ms: int = 600_000
    #: how long committed rows wait in memory before they are written to RocksDB; a crash replays
    #: them
    checkpoint_interval_ms: int = 10_000
    #: ... and how much may wait over all tasks of the worker, in bytes of keys and values
    checkpoint_bytes: int = CHECKPOINT_BYTES
    #: ... and in rows, which cost memory however small they are: per task, whose records wait while
    #: they are written, and over all tasks
    checkpoint_rows_max: int = 200_000
    waiting_rows_max: int = 500_000
    #: both bounds again for rows that are being restored, over all tasks of the worker; with fewer
    #: rows there are more files, and each costs some syncs of the disk, 10 to 50 ms
    restore_bytes: int = CHECKPOINT_BYTES
    restore_rows_max: int = 500_000
    #: memory of clean rows over all tasks of the worker; the oldest half is evicted beyond it
    cache_bytes: int = CACHE_BYTES
    #: memory and files of the databases
    rocksdb: RocksDbConfig = DEFAULT_ROCKSDB
    replication_factor: int = -1
    topic_config: Mapping[str, str] = field(default_factory=dict)
    offset_reset: str | timedelta = "earliest"
    #: stops by default: records are lost, and a log line is easily missed
    on_data_loss: OnDataLoss = "fail"
    #: how long records wait for partitions that are read to their ends; None: not even for those
    #: that have more
    max_task_idle_ms: int | None = 0
    #: records per poll: 1,000 to 2,000 measured fastest (cache-friendlier than 10,000)
    poll_records_max: int = 2_000
    #: a partition is paused while it has more waiting records than this, or than its share of the
    #: limit in bytes for all partitions
    buffered_records_per_partition: int = 10_000
    buffered_bytes: int = BUFFERED_BYTES
    #: repartition records are purged this often, after a commit
    purge_interval_ms: int = PURGE_INTERVAL_MS
    #: how often the topics of the plan are checked, a request to one broker
    topics_interval_ms: int = 30_000
    #: stop after this many aborts within ``aborts_window_ms`` that the brokers did not cause
    aborts_max: int = ABORTS_MAX
    aborts_window_ms: int = 600_000
    #: ... or after this many consumers that the group removed permanently, created at most
    #: five times a second: an id that a killed instance still holds is free after its session
    rejoins_max: int = 300
    #: the clients' limits on one call of a function, see logstate.worker.slow_calls
    max_poll_interval_ms: int = MAX_POLL_INTERVAL_MS
    transaction_timeout_ms: int = 10_000
    #: how long a start waits for unavailable brokers; None: without a limit
    start_timeout_ms: int | None = None
    #: must exist if it is given
    dead_letter_topic: str | None = None
    #: how many other instances keep a copy of each task's state
    standby_replicas: int = 0
    #: how often standbys receive the ends of changelogs: so much is replayed after a promotion
    standby_interval_ms: int = 1_000
    #: a member that is about to join first restores its future tasks, until it lags by this many
    #: records of each changelog; None: it joins at once
    acceptable_lag: int | None = None
    #: ... but joins after this time in any case, or if it receives nothing from others for so long
    warm_up_timeout_ms: int = 600_000
    peers_timeout_ms: int = 10_000
    #: how fast a worker reads for its standbys, in bytes of keys and values; None: without a limit
    standby_bytes_per_s: int | None = None
    #: minimum time between two checks for final results, if the application sets it
    emit_intervals: EmitIntervals = DEFAULT_EMIT_INTERVALS
    #: the reaction to a task whose committed state is missing
    on_state_loss: OnStateLoss = "fail"
    #: decisions about stored state that the topology no longer names
    decisions: MigrationOptions = NOTHING_DECIDED
    #: the application's settings that processors can read
    application_config: Mapping[str, Any] = field(default_factory=dict)
