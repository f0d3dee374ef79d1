"""The newest cut: from a manifest and committed offsets to one position per partition.

How it works: with the offsets of a task's input partitions, an application commits the positions
that its changelogs had at that commit (``logstate.changelog.cut``). So the state "at the latest
commit" is every changelog partition up to the position in the newest commit of its task. All tasks
are requested at once, and only finished transactions are read.

Invariants: exact per task, because a task commits atomically. Between tasks, records may be in
flight in a repartition topic: sent by one task and not yet counted by the next. The cut contains
an upper bound of their number.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from logstate.changelog.commit_of_task import (
    CommitOfTask,
    clock_of_store,
    commit_of_task,
    rows_of_store,
)
from logstate.changelog.cut import cut_key
from logstate.changelog.cuts.cut_value import CutValue
from logstate.changelog.cuts.logs import ChangelogSource, log_reader, read_manifest, sources_of
from logstate.contracts.clients import Committed
from logstate.contracts.errors import RestoreError
from logstate.contracts.records import TaskId, TopicPartition
from logstate.contracts.snapshots import SnapshotNote

_STALL_SECONDS = 60.0


class Ends(NamedTuple):
    """Where a read stops in each partition of a changelog, and the store's clocks there."""

    positions: Mapping[int, int]
    clocks: Mapping[int, int] = {}
    """Partition to the store's stream time in ms, if the cut contains it."""
    taken_at_ms: int = 0
    """Wall clock when this was the newest cut; 0 if unknown."""
    starts: Mapping[int, int] = {}
    """Partition to the first offset of its log at that time, if known."""
    rows: Mapping[int, int] = {}
    """Partition to the number of rows of the store there, if the commits contain it."""


class GroupCommits(NamedTuple):
    """The last commits of a group."""

    of_tasks: Mapping[TaskId, CommitOfTask]
    offsets: Mapping[TopicPartition, int]
    """Of every requested partition that has one."""


def newest_commits(
    config: Mapping[str, Any],
    application: str,
    sources: Iterable[ChangelogSource],
    cut_records: Mapping[bytes, bytes],
    others: Iterable[TopicPartition] = (),
) -> GroupCommits:
    """Return the newest commit of each task of these stores, read in one request.

    ``others`` are further input partitions of the application.
    """
    log_reader()  # reports a missing client library
    from logstate.kafka.group_offsets import committed_offsets

    inputs = {one.task(n): one.inputs for one in sources for n in range(one.partitions)}
    asked = {TopicPartition(topic, t.partition) for t, topics in inputs.items() for topic in topics}
    committed = committed_offsets(config, application, asked | set(others))
    commits = {}
    for task, topics in inputs.items():
        parts = {topic: TopicPartition(topic, task.partition) for topic in topics}
        at = {topic: committed[tp] for topic, tp in parts.items() if tp in committed}
        commits[task] = commit_of_task(at, cut_records.get(cut_key(task)))
    offsets = {tp: one.offset for tp, one in committed.items() if one.offset is not None}
    return GroupCommits(commits, offsets)


def ends_at_commits(
    config: Mapping[str, Any],
    application: str,
    source: ChangelogSource,
    commits: Mapping[TaskId, CommitOfTask],
    bounds: Mapping[TopicPartition, Any],
    stall_seconds: float = _STALL_SECONDS,
) -> Ends:
    """Return where a read ends in each partition; the beginning if nothing was ever committed.

    Raises RestoreError if it is unknown. The bounds have to be older than the commits: records that
    are in the log at that time were committed with one of them.
    """
    positions, clocks, rows = {}, {}, {}
    for tp in source.logs:
        commit = commits[source.task(tp.partition)]
        position = commit.positions.get(tp.topic)
        if position is None:
            if _has_records(config, tp, bounds[tp], stall_seconds):
                raise RestoreError(
                    f"{tp}: the changelog has records, but no commit of {application!r} contains "
                    "the position where its state ends. Offsets of its inputs were reset, or last "
                    "committed by another library. Let the application commit once, or read with "
                    'cut "latest"'
                )
            position = bounds[tp].start
        positions[tp.partition] = position
        clock = clock_of_store(source.entry, commit.clocks)
        if clock is not None:
            clocks[tp.partition] = clock
        counted = rows_of_store(source.entry, commit.clocks)
        if counted is not None:
            rows[tp.partition] = counted
    return Ends(positions, clocks, starts=_starts(source, bounds), rows=rows)


def _starts(source: ChangelogSource, bounds: Mapping[TopicPartition, Any]) -> dict[int, int]:
    """Return partition of a changelog to where its log begins."""
    return {log.partition: bounds[log].start for log in source.logs}


def _has_records(
    config: Mapping[str, Any], log: TopicPartition, bounds: Any, stall_seconds: float
) -> bool:
    # Read records: the log may contain only records that were aborted when the first instance died.
    records = log_reader().read_partition(
        config,
        log,
        start=bounds.start,
        end=bounds.stable_end,
        may_skip=True,
        stall_seconds=stall_seconds,
    )
    return any(records)


def latest_cut(bootstrap: str, application: str, *, kafka: Mapping[str, str] | None = None) -> str:
    """Return the newest commit of an application as a value for the option ``cut``.

    Stores that are read with the same text are consistent: per task, all are in the state of the
    same commit. The text is JSON that can be printed and stored (``parse_cut`` parses it):
    positions of the changelogs, offsets of the inputs, clocks, the ids of all these topics, and how
    much is in flight in repartition topics. ``kafka`` is client configuration (librdkafka names).

    Raises TopicError if the application has never run, RestoreError if a changelog has records and
    no commit contains the position where its state ends, BrokerError if no broker answers.
    """
    return str(newest_cut({**(kafka or {}), "bootstrap.servers": bootstrap}, application))


def newest_cut(config: Mapping[str, Any], application: str) -> CutValue:
    """Return the newest cut for a client's configuration; raises as ``latest_cut`` does."""
    manifest, records = read_manifest(config, application)
    return cut_of(config, application, manifest, records)


def cut_of(
    config: Mapping[str, Any],
    application: str,
    manifest: Mapping[str, Any],
    cut_records: Mapping[bytes, bytes],
) -> CutValue:
    """Return the newest cut for a known manifest; raises as ``latest_cut`` does."""
    taken_at_ms = int(time.time() * 1000)
    sources = sources_of(config, manifest).values()
    bounds = log_reader().log_bounds(config, [log for source in sources for log in source.logs])
    between = _repartitions(manifest)
    commits, offsets = newest_commits(config, application, sources, cut_records, between)
    in_flight = _in_flight(config, between, offsets)
    return cut_from(config, application, sources, commits, bounds, in_flight, taken_at_ms)


def cut_at_notes(
    config: Mapping[str, Any], application: str, notes: Callable[[], Mapping[str, SnapshotNote]]
) -> CutValue:
    """Return the cut of a snapshot: what each task has noted, with nothing in flight.

    ``notes`` takes the snapshot. Raises as ``latest_cut`` and ``notes`` do.
    """
    manifest, _ = read_manifest(config, application)
    sources = sources_of(config, manifest).values()
    bounds = log_reader().log_bounds(config, [log for source in sources for log in source.logs])
    taken_at_ms = int(time.time() * 1000)
    commits = {
        TaskId.parse(task): commit_of_task(
            {topic: Committed(*offset) for topic, offset in note.committed.items()}, note.cut_record
        )
        for task, note in notes().items()
    }
    in_flight: dict[str, dict[int, int]] = {}
    for log in _repartitions(manifest):
        in_flight.setdefault(log.topic, {})[log.partition] = 0
    return cut_from(config, application, sources, commits, bounds, in_flight, taken_at_ms)


def cut_from(
    config: Mapping[str, Any],
    application: str,
    sources: Collection[ChangelogSource],
    commits: Mapping[TaskId, CommitOfTask],
    bounds: Mapping[TopicPartition, Any],
    in_flight: Mapping[str, Mapping[int, int]],
    taken_at_ms: int,
) -> CutValue:
    """Return the cut at one commit of each task; ``bounds`` are older than the commits."""
    positions = {
        source.topic: ends_at_commits(config, application, source, commits, bounds).positions
        if source.inputs
        else {log.partition: bounds[log].stable_end for log in source.logs}
        for source in sources
    }
    return CutValue(
        positions,
        _topic_ids(commits, sources),
        _inputs_by_topic(commits),
        {str(task): dict(commit.clocks) for task, commit in commits.items() if commit.clocks},
        taken_at_ms,
        in_flight,
        {source.topic: _starts(source, bounds) for source in sources},
    )


def _repartitions(manifest: Mapping[str, Any]) -> list[TopicPartition]:
    topics = manifest.get("topics", {})
    return [
        TopicPartition(topic, n) for topic in topics for n in range(topics[topic]["partitions"])
    ]


def _topic_ids(
    commits: Mapping[TaskId, CommitOfTask], sources: Iterable[ChangelogSource]
) -> dict[str, str]:
    found: dict[str, str] = {}
    for commit in commits.values():
        found |= commit.topic_ids
    return found | {source.topic: source.topic_id for source in sources}


def _inputs_by_topic(commits: Mapping[TaskId, CommitOfTask]) -> dict[str, dict[int, int]]:
    inputs: dict[str, dict[int, int]] = {}
    for task, commit in commits.items():
        for topic, offset in commit.inputs.items():
            inputs.setdefault(topic, {})[task.partition] = offset
    return inputs


def _in_flight(
    config: Mapping[str, Any],
    between: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, int],
) -> dict[str, dict[int, int]]:
    """Return the number of offsets written and not yet committed: an upper bound of records.

    Read after the commits, up to the end of each log, so that it includes what they sent.
    """
    found: dict[str, dict[int, int]] = {}
    for log, bounds in log_reader().log_bounds(config, between).items():
        reached = max(committed.get(log, bounds.start), bounds.start)
        found.setdefault(log.topic, {})[log.partition] = max(0, bounds.end - reached)
    return found
