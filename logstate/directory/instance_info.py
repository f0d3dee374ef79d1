"""Read the directory from outside: which instances are alive or silent, and who has which task.

An observer has no common clock with the instances. Entries that it reads first have an unknown age.
An instance that writes during the observation is alive; one that misses as many heartbeats as would
expire its entry is silent. Missed heartbeats from before the observation count if later entries of
others show how much time has passed (:mod:`log_time`). So an observation lasts about one heartbeat,
and up to five if no other instance has written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from logstate.contracts.clients import Admin, Cluster, LogConsumer
from logstate.contracts.clock import Clock
from logstate.contracts.records import TaskId, TopicPartition
from logstate.contracts.topic_names import instances_topic
from logstate.directory.entries import (
    NAMES_MAX,
    InstanceEntry,
    OpenEntry,
    decode_entry,
    encode_entry,
)
from logstate.directory.known_instances import INSTANCES_MAX, MISSED_MAX, KnownInstances
from logstate.directory.log_time import LogTime

_BATCH = 1_000
_POLL_S = 0.1


class InstanceInfo(NamedTuple):
    """One instance with its last entry."""

    entry: InstanceEntry
    #: False: it missed its heartbeats during the observation and wrote no tombstone
    is_alive: bool


class TaskInfo(NamedTuple):
    """One task of an application."""

    task: str
    #: ``running`` and the like, as reported by its owner; None if it has no owner
    stage: str | None
    #: the owner's id; None: no owner, or unknown
    instance: str | None
    #: records between its positions and the ends of its inputs; None: unknown
    lag: int | None
    #: records of its changelogs that are still to be replayed
    restore_records: int
    is_readable: bool
    #: other instances with a standby
    standbys: tuple[str, ...]
    #: why the owner is unknown; empty if it is known
    remark: str
    #: the largest timestamp that it has processed; None: none, or unknown
    stream_time_ms: int | None = None
    #: empty input partitions that its fetched records wait for, and how long they have waited
    waits_for: tuple[str, ...] = ()
    waits_ms: int = 0
    #: ``topic-partition`` -> the largest timestamp of its processed records
    partition_times: Mapping[str, int] = MappingProxyType({})
    #: operator -> its rows that wait for stream time
    open_rows: Mapping[str, OpenEntry] = MappingProxyType({})


def describe_instances(
    application_id: str, cluster: Cluster, admin: Admin, clock: Clock
) -> list[InstanceInfo]:
    """Return every instance that has not stopped cleanly, by id; writes nothing.

    Empty if the application never had a directory.
    """
    partition = TopicPartition(instances_topic(application_id), 0)
    if partition.topic not in admin.describe_topics([partition.topic]):
        return []
    start = admin.start_offsets([partition])[partition]
    end = admin.end_offsets([partition])[partition]
    consumer = cluster.log_consumer()
    try:
        consumer.assign({partition: start})
        return _listened(consumer, partition, end, clock)
    finally:
        consumer.close()


def _listened(
    consumer: LogConsumer, partition: TopicPartition, end: int, clock: Clock
) -> list[InstanceInfo]:
    entries: dict[str, InstanceEntry] = {}
    again: set[str] = set()
    past = LogTime()
    read_ms: float | None = None
    while True:
        polled = consumer.poll(_BATCH, _POLL_S)
        for record in polled.records.get(partition, ()):
            name = (record.key() or b"").decode("utf-8", "replace")
            value = record.value()
            entry = None if value is None else decode_entry(value)
            if entry is None:
                entries.pop(name, None)
                continue
            if name not in entries and len(entries) >= INSTANCES_MAX:
                continue
            entries[name] = entry
            if (record.offset() or 0) >= end:
                again.add(name)
            else:
                past.heard(entry, record.timestamp()[1])
        now_ms = clock.monotonic_ms()
        if read_ms is None and (consumer.position(partition) or 0) >= end:
            read_ms = now_ms
        if read_ms is None:
            continue
        silences, for_ms = past.silences(), now_ms - read_ms
        if not any(
            for_ms + silences.get(name, 0.0) < MISSED_MAX * entry.heartbeat_timeout_ms
            for name, entry in entries.items()
            if name not in again
        ):
            return [InstanceInfo(entry, name in again) for name, entry in sorted(entries.items())]


def tasks_of(seen: Sequence[InstanceInfo]) -> list[TaskInfo]:
    """Return all known tasks in order: those of live instances, and those without an owner.

    Tasks without an owner follow from the reported partition counts.
    """
    known = KnownInstances()
    alive = [one.entry for one in seen if one.is_alive]
    for offset, entry in enumerate(alive):
        known.heard(entry.instance, encode_entry(entry), offset, 0)
    names = {name for entry in alive for name in (*entry.tasks, *entry.standbys)}
    names |= set(islice(_expected_tasks(one.entry for one in seen), NAMES_MAX))
    return [_task(name, known, alive) for name in sorted(names, key=TaskId.parse)]


def _expected_tasks(entries: Iterable[InstanceEntry]) -> Iterable[str]:
    counts: dict[int, int] = {}
    for entry in entries:
        for sub_topology, count in entry.task_counts.items():
            counts[sub_topology] = max(count, counts.get(sub_topology, 0))
    return (str(TaskId(number, n)) for number, count in counts.items() for n in range(count))


def _task(name: str, known: KnownInstances, alive: Sequence[InstanceEntry]) -> TaskInfo:
    standbys = tuple(entry.instance for entry in alive if name in entry.standbys)
    owner = known.owner(name, 0)
    if owner.entry is None:
        is_claimed = any(name in entry.tasks for entry in alive)
        remark = owner.reason if is_claimed else "no live instance has it"
        return TaskInfo(name, None, None, None, 0, False, standbys, remark)
    task = owner.entry.tasks[name]
    return TaskInfo(
        name,
        task.stage,
        owner.entry.instance,
        task.lag,
        task.restore_records,
        task.is_readable,
        standbys,
        "",
        task.stream_time_ms,
        task.waits_for,
        task.waits_ms,
        task.partition_times,
        task.open_rows,
    )
