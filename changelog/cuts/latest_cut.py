"""The newest cut: from a manifest and committed offsets to one position per partition.

How it works: an application commits, with the offsets of a task's input partitions, the position
its changelogs had at that very commit (``logstate.changelog.cut``). So the state "at the latest
commit" is: every changelog partition up to the position that the newest commit of its task names.
All tasks are asked in one request, answered from finished transactions only.

Invariants: exact per task, because a task commits atomically. Between tasks, records may be under
way in a repartition topic: what one task has sent on, the next may not have counted yet. How many
at most, the cut says.
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
    """Partition to the store's stream time in ms, where the cut knows it."""
    taken_at_ms: int = 0
    """Wall clock when this was the newest; 0 if unknown."""
    starts: Mapping[int, int] = {}
    """Partition to where its log began then, where that is known."""
    rows: Mapping[int, int] = {}
    """Partition to how many rows the store has there, where the commits say it."""


class Commits(NamedTuple):
    """What a group has committed last."""

    of_tasks: Mapping[TaskId, CommitOfTask]
    offsets: Mapping[TopicPartition, int]
    """Of every partition that was asked for and has one."""


def newest_commits(
    config: Mapping[str, Any],
    application: str,
    sources: Iterable[ChangelogSource],
    cut_records: Mapping[bytes, bytes],
    others: Iterable[TopicPartition] = (),
) -> Commits:
    """What the newest commit of each task of these stores says; all are asked in one request.

    ``others`` are input partitions of the application beside those of the stores.
    """
    log_reader()  # says what is missing, if the client library is
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
    return Commits(commits, offsets)


def ends_at_commits(
    config: Mapping[str, Any],
    application: str,
    source: ChangelogSource,
    commits: Mapping[TaskId, CommitOfTask],
    bounds: Mapping[TopicPartition, Any],
    stall_seconds: float = _STALL_SECONDS,
) -> Ends:
    """Where nothing was committed yet, the beginning. Raises RestoreError where it is unknown.

    The bounds have to be older than the commits: what is in the log then was committed with some.
    """
    positions, clocks, rows = {}, {}, {}
    for tp in source.logs:
        commit = commits[source.task(tp.partition)]
        position = commit.positions.get(tp.topic)
        if position is None:
            if _has_records(config, tp, bounds[tp], stall_seconds):
                raise RestoreError(
                    f"{tp}: no commit of {application!r} says where its state ends, though "
                    "the changelog has records; offsets of its inputs were reset, or last "
                    "committed by another library; let the application commit once, or read with "
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
    """Partition of a changelog to where its log begins."""
    return {log.partition: bounds[log].start for log in source.logs}


def _has_records(
    config: Mapping[str, Any], log: TopicPartition, bounds: Any, stall_seconds: float
) -> bool:
    # By a look: what is there may be no more than what was aborted when the first instance died.
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
    """The newest commit of an application as a value for the option ``cut``.

    Read several stores with the same text and they belong together: per task, every store is as it
    was at the same commit. The text is JSON, to be printed and kept (``parse_cut`` takes it apart):
    positions of the changelogs, offsets of the inputs, clocks, the ids of all these topics, and how
    much is in flight in repartition topics. ``kafka`` is client configuration (librdkafka names).

    Raises TopicError if the application has never run, RestoreError if a changelog has records and
    no commit says where its state ends, BrokerError if nobody answers.
    """
    return str(newest_cut({**(kafka or {}), "bootstrap.servers": bootstrap}, application))


def newest_cut(config: Mapping[str, Any], application: str) -> CutValue:
    """The same as a value, for whoever has a client's configuration; raises as it does."""
    manifest, records = read_manifest(config, application)
    return cut_of(config, application, manifest, records)


def cut_of(
    config: Mapping[str, Any],
    application: str,
    manifest: Mapping[str, Any],
    cut_records: Mapping[bytes, bytes],
) -> CutValue:
    """The same where the manifest is known; raises as ``latest_cut`` does."""
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
    """The cut of a snapshot: what each task has noted, with nothing in flight.

    ``notes`` takes the snapshot. Raises as ``latest_cut`` does, and what ``notes`` raises.
    """
    manifest, _ = read_manifest(config, application)
    sources = sources_of(config, manifest).values()
    bounds = log_reader().log_bounds(config, [log for source in sources for log in source.logs])
    taken_at_ms = int(time.time() * 1000)
    commits = {
        TaskId.parse(task): commit_of_task(
            {topic: Committed(*told) for topic, told in note.committed.items()}, note.cut_record
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
    """The cut at one commit of each task; ``bounds`` are older than these."""
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
    """Offsets that were written and not yet committed; at most so many records are under way.

    Asked behind the commits, to the very end of each log: what they sent on is among it.
    """
    found: dict[str, dict[int, int]] = {}
    for log, bounds in log_reader().log_bounds(config, between).items():
        reached = max(committed.get(log, bounds.start), bounds.start)
        found.setdefault(log.topic, {})[log.partition] = max(0, bounds.end - reached)
    return found
