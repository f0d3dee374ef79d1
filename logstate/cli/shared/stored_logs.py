"""Read what an application has stored, for commands: manifest, cuts, and logs up to them.

All reads are from outside: committed records only, without joining the group or writing.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

from logstate.changelog.commit_of_task import clock_of_store, commit_of_task
from logstate.changelog.cut import MANIFEST_KEY, cut_key
from logstate.changelog.cuts.source_topic_records import as_stored
from logstate.changelog.stores.kinds import kind_of
from logstate.contracts.changelog_keys import history_ms_of
from logstate.contracts.errors import ConfigError, RestoreError, TopicError
from logstate.contracts.records import FetchedRecord, TaskId, TopicPartition
from logstate.contracts.topic_names import cuts_topic
from logstate.kafka.group_offsets import committed_offsets
from logstate.kafka.log_reader import LogBounds, latest_values, log_bounds, log_topics
from logstate.kafka.log_reader import read_partition as read_log
from logstate.topics.displayed_records import StoredLog, log_of_entry
from logstate.topics.manifest_changes import Entry, Manifest
from logstate.topics.manifest_log import decoded

Settings = Mapping[str, str]


class Stored(NamedTuple):
    """The manifest of an application, and its other records in the cuts topic."""

    application_id: str
    manifest: Manifest
    cuts: Mapping[bytes, bytes]


class LogAtCut(NamedTuple):
    """One partition of a changelog, up to the position in the newest commit of its task."""

    partition: TopicPartition
    start: int
    end: int
    #: the store's stream time there; None if the cut does not contain it
    clock_ms: int | None


def stored_by(settings: Settings, application_id: str) -> Stored:
    """Return the stored records of an application. Raises TopicError if it never ran."""
    partition = TopicPartition(cuts_topic(application_id), 0)
    try:
        found = latest_values(settings, partition)
    except TopicError as error:
        raise _never_ran(application_id) from error
    if MANIFEST_KEY not in found:
        raise _never_ran(application_id)
    return Stored(application_id, decoded(found[MANIFEST_KEY], application_id), found)


def _never_ran(application_id: str) -> TopicError:
    return TopicError(
        f"application {application_id!r} has no manifest in {cuts_topic(application_id)!r}: it"
        " never ran on these brokers, or was reset. Is the application id right?"
    )


def stored_log(settings: Settings, stored: Stored, store: str) -> StoredLog:
    """Return the changelog of a store. Raises ConfigError without store or changelog."""
    stores: Mapping[str, Entry] = stored.manifest["stores"]
    if store not in stores:
        raise ConfigError(
            f"application {stored.application_id!r} has no store {store!r}"
            f"{suggestion(store, stores)}; it has {', '.join(sorted(stores)) or 'none'}"
        )
    entry = stores[store]
    topic = entry["changelog_topic"]
    if topic is None:
        raise ConfigError(
            f"store {store!r} has no changelog: its rows are local, and only the instance that has"
            " them can be queried (docs/queries.md)"
        )
    found = log_topics(settings, [topic])[topic]
    known = entry.get("changelog_topic_id")
    if known and known != found.topic_id:
        raise RestoreError(
            f"{topic!r} was deleted and created again since the application started: the positions"
            " of its cut mean nothing in it. Start the application, and try again"
        )
    return log_of_entry(store, entry, topic, found.partitions)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``(did you mean ...?)`` if one of the known names is similar."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def logs_at_cut(settings: Settings, stored: Stored, log: StoredLog) -> list[LogAtCut]:
    """Return every partition of a changelog, to be read up to the newest commit of its task.

    Raises RestoreError if there are records and no commit contains the position of their end.
    """
    partitions = [TopicPartition(log.topic, number) for number in range(log.partitions)]
    # Before the commits: records in the log at this time were committed with one of them.
    bounds = log_bounds(settings, partitions)
    inputs = log.entry.get("source_topics") or ()
    if not inputs:
        return [LogAtCut(tp, one.start, one.stable_end, None) for tp, one in bounds.items()]
    asked = [TopicPartition(topic, tp.partition) for topic in inputs for tp in partitions]
    committed = committed_offsets(settings, stored.application_id, asked)
    found = []
    for tp in partitions:
        offsets = {topic: committed.get(TopicPartition(topic, tp.partition)) for topic in inputs}
        task = TaskId(int(log.entry["sub_topology"]), tp.partition)
        record = stored.cuts.get(cut_key(task))
        commit = commit_of_task({t: one for t, one in offsets.items() if one is not None}, record)
        end = commit.positions.get(tp.topic)
        if end is None:
            _check_empty(settings, stored, tp, bounds[tp])
            end = bounds[tp].start
        clock = clock_of_store({**log.entry, "name": log.name}, commit.clocks)
        found.append(LogAtCut(tp, bounds[tp].start, end, clock))
    return found


def _check_empty(
    settings: Settings, stored: Stored, partition: TopicPartition, bounds: LogBounds
) -> None:
    """Read records to check: a log may contain only aborted ones."""
    start, end = bounds.start, bounds.stable_end
    if any(read_log(settings, partition, start=start, end=end, may_skip=True)):
        raise RestoreError(
            f"{partition}: the changelog has records, but no commit of {stored.application_id!r}"
            " contains the position where its state ends: offsets of its inputs were reset, or last"
            " committed by another library. Let the application commit once, and try again;"
            " `logstate tail` shows the records themselves"
        )


def rows_of_key(
    settings: Settings, log: StoredLog, at: LogAtCut, is_it: Any
) -> Iterator[FetchedRecord]:
    """Yield the newest record of each row of a key in one partition, without expired rows."""
    batches = read_log(settings, at.partition, start=at.start, end=at.end, may_skip=True)
    records = chain.from_iterable(map(as_stored(log.entry), batches))
    is_hidden = hidden_rows(log, at.clock_ms)
    for _, record in sorted(newest_of_key(records, log, is_it).items()):
        if record.value() is not None and not is_hidden(record):
            yield record


def hidden_rows(log: StoredLog, clock_ms: int | None) -> Callable[[FetchedRecord], bool]:
    """Return a check whether a row has expired at the clock of its store, None = unknown."""
    oldest, ttl_ms = kind_of(log.entry).oldest_shown(log.entry), log.entry.get("ttl_ms")
    if clock_ms is None:
        return lambda _: False
    if ttl_ms is not None:
        return lambda record: bool(_time(record) + ttl_ms <= clock_ms)
    if oldest is None:
        return lambda _: False
    first = clock_ms + oldest
    return lambda record: log.layout.expiry_time(record.key() or b"") < first


def newest_of_key(
    records: Iterable[FetchedRecord], log: StoredLog, is_it: Any
) -> dict[bytes, FetchedRecord]:
    """Return the newest record of each row of a key, deletions too; of versions, the latest."""
    newest: dict[bytes, FetchedRecord] = {}
    is_versioned = kind_of(log.entry).is_versioned
    history_ms = history_ms_of(log.entry) if is_versioned else None
    clock_ms = -1
    for record in records:
        if is_versioned:
            clock_ms = max(clock_ms, _time(record))  # every key moves it
            if history_ms is not None and _time(record) < clock_ms - history_ms:
                continue  # it was too old for the store, which refused it
        row = record.key()
        if row is None or not is_it(log.layout.inner_key(row)):
            continue
        if is_versioned and row in newest and _time(record) < _time(newest[row]):
            continue  # an older version that came late
        newest[row] = record
    return newest


def _time(record: FetchedRecord) -> int:
    return max(record.timestamp()[1], 0)
