"""Where to stop reading: from a manifest and committed offsets to one position per partition.

How it works: an application commits, with the offsets of a task's input partitions, the position
its changelogs had at that very commit (``logstate.changelog.cut``). So the state "at the latest
commit" is: every changelog partition up to the position that the newest commit of its task names.
All tasks are asked in one request, answered from finished transactions only.

Invariants: exact per task, because a task commits atomically. Between tasks, records may be under
way in a repartition topic: what one task has sent on, the next may not have counted yet.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from logstate.changelog.cut import (
    MANIFEST_KEY,
    Cut,
    cut_key,
    decode_cut,
    decode_cut_record,
)
from logstate.changelog.spark.options import LATEST, LATEST_COMMIT, SourceOptions
from logstate.contracts.errors import ConfigError, RestoreError, TopicError
from logstate.contracts.records import TaskId, TopicPartition
from logstate.contracts.topic_names import cuts_topic


@dataclass(frozen=True)
class ChangelogSource:
    """A store's changelog, as the manifest describes it. Plain data, so it can travel."""

    topic: str
    partitions: int
    entry: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.entry.get("name", self.topic))


def log_reader() -> ModuleType:
    """The module that reads logs, or one sentence on what is missing for it."""
    try:
        import logstate.kafka.log_reader as module
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "confluent_kafka":
            raise
        raise ConfigError(
            "reading a changelog needs the package confluent-kafka on the driver and on every "
            f"executor, and the Python here, {sys.executable}, does not have it: install it there"
        ) from None
    return module


def read_manifest(
    options: SourceOptions, application: str
) -> tuple[dict[str, Any], dict[bytes, bytes]]:
    """The manifest of an application and all records of its cuts topic.

    Raises TopicError if the application has never run on this cluster.
    """
    partition = TopicPartition(cuts_topic(application), 0)
    try:
        records = log_reader().latest_values(options.client_config, partition)
        if MANIFEST_KEY not in records:
            records = log_reader().latest_values(options.client_config, partition, waits=True)
    except TopicError as error:
        raise TopicError(
            f"application {application!r} has no topic {partition.topic!r} on {options.bootstrap}; "
            "it is made when the application first runs; is the application id right?"
        ) from error
    if MANIFEST_KEY not in records:
        raise TopicError(
            f"topic {partition.topic!r} has no manifest; application {application!r} writes it "
            "before its first commit: has it started?"
        )
    return json.loads(records[MANIFEST_KEY]), records


def find_source(options: SourceOptions) -> ChangelogSource:
    """The changelog that the options name. Raises ConfigError or TopicError if there is none."""
    if options.application is None:
        assert options.topic is not None
        entry: dict[str, Any] = {"kind": "key_value", "key": None, "value": None}
    else:
        manifest, _ = read_manifest(options, options.application)
        entry = _find_entry(options, manifest["stores"])
    entry |= {
        side: {"format": given}
        for side, given in (("key", options.key_format), ("value", options.value_format))
        if given is not None
    }
    topic = entry.get("changelog_topic") or options.topic
    if topic is None:
        raise ConfigError(
            f"store {options.store!r} of {options.application!r} has no changelog topic, so there "
            "is nothing to read; turn its logging on, or query the application"
        )
    count = log_reader().partition_counts(options.client_config, [topic])[topic]
    expected = entry.get("partitions", count)
    if count != expected:
        raise TopicError(
            f"{topic!r} has {count} partitions, and application {options.application!r} was "
            f"declared with {expected}; the count is part of a store's identity, because it "
            "decides where a key lives; reset the application"
        )
    return ChangelogSource(topic, count, entry)


def _find_entry(options: SourceOptions, stores: Mapping[str, Any]) -> dict[str, Any]:
    if options.topic is not None:
        for name, entry in stores.items():
            if entry.get("changelog_topic") == options.topic:
                return {**entry, "name": name}
        raise ConfigError(
            f"{options.topic!r} is no changelog of {options.application!r}; its changelogs are "
            f"{sorted(entry['changelog_topic'] or '-' for entry in stores.values())}; leave "
            '"application" out to read a topic as it is'
        )
    if options.store is None or options.store not in stores:
        raise ConfigError(
            f"{options.application!r} has no store {options.store!r}; it has {sorted(stores)}"
        )
    return {**stores[options.store], "name": options.store}


def end_positions(options: SourceOptions, source: ChangelogSource) -> dict[int, int]:
    """Partition to the offset where the wanted cut ends.

    Raises RestoreError if the cut cannot be told, ConfigError if the given offsets do not fit.
    """
    wanted = [TopicPartition(source.topic, n) for n in range(source.partitions)]
    if isinstance(options.cut, Mapping):
        return _given_positions(options.cut, wanted)
    bounds = log_reader().log_bounds(options.client_config, wanted)
    stable_ends = {tp.partition: bounds[tp].stable_end for tp in wanted}
    is_committed_with_state = bool(source.entry.get("source_topics"))
    if options.cut == LATEST or options.application is None or not is_committed_with_state:
        return stable_ends
    assert options.cut == LATEST_COMMIT
    committed = committed_positions(options, options.application, source)
    for tp in wanted:
        if committed[tp.partition] is None and bounds[tp].end > bounds[tp].start:
            raise RestoreError(
                f"{tp}: no commit of {options.application!r} says where its state ends, though the "
                "changelog has records; its offsets were reset, or last committed by another "
                'library; let the application commit once, or read with cut "latest"'
            )
    return {partition: position or 0 for partition, position in committed.items()}


def committed_positions(
    options: SourceOptions, application: str, source: ChangelogSource
) -> dict[int, int | None]:
    """Partition to the position named by its task's newest commit; None where none is named."""
    _, records = read_manifest(options, application)
    committed = log_reader().committed_offsets(options.client_config, application)
    return positions_at_commit(source, committed, records)


def positions_at_commit(
    source: ChangelogSource,
    committed: Mapping[TopicPartition, Any],
    cut_records: Mapping[bytes, bytes],
) -> dict[int, int | None]:
    """The same from data at hand: committed offsets with metadata, records of the cuts topic."""
    positions: dict[int, int | None] = {}
    for partition in range(source.partitions):
        found = [
            position
            for topic in source.entry["source_topics"]
            if (at := committed.get(TopicPartition(topic, partition))) is not None
            if (position := _position(source, topic, partition, at, cut_records)) is not None
        ]
        # A task commits all its inputs at once, so they agree; positions only ever grow.
        positions[partition] = max(found, default=None)
    return positions


def _position(
    source: ChangelogSource,
    topic: str,
    partition: int,
    committed: Any,
    cut_records: Mapping[bytes, bytes],
) -> int | None:
    if topic == source.topic:  # the input itself is the store's log
        return int(committed.offset)
    cut = decode_cut(committed.metadata, committed_offset=committed.offset).cut
    if cut is not None and cut.is_in_cuts_topic:
        value = cut_records.get(cut_key(TaskId(int(source.entry["sub_topology"]), partition)))
        cut = _from_record(value, topic, committed.offset)
    return None if cut is None else cut.positions.get(source.topic)


def _from_record(value: bytes | None, topic: str, committed_offset: int) -> Cut | None:
    if value is None:
        return None
    return decode_cut_record(value, topic=topic, committed_offset=committed_offset)


def _given_positions(
    offsets: Mapping[str, Mapping[int, int]], wanted: list[TopicPartition]
) -> dict[int, int]:
    topic = wanted[0].topic
    given = offsets.get(topic)
    if given is None or given.keys() != {tp.partition for tp in wanted}:
        raise ConfigError(
            f"the cut must name an offset for each of the {len(wanted)} partitions of {topic!r}; "
            f"found {dict(given) if given is not None else f'only {sorted(offsets)}'}"
        )
    return dict(given)


def latest_cut(bootstrap: str, application: str, *, kafka: Mapping[str, str] | None = None) -> str:
    """The newest commit of an application as a value for the option ``cut``.

    Read several stores with the same text and they belong together: per task, every store is as it
    was at the same commit. ``kafka`` is client configuration (librdkafka names).

    Raises TopicError if the application has never run, BrokerError if nobody answers.
    """
    options = SourceOptions(bootstrap, application, topic="-", kafka=dict(kafka or {}))
    manifest, records = read_manifest(options, application)
    topics = [entry.get("changelog_topic") for entry in manifest["stores"].values()]
    counts = log_reader().partition_counts(
        options.client_config, {topic for topic in topics if topic is not None}
    )
    committed = log_reader().committed_offsets(options.client_config, application)
    cut: dict[str, dict[int, int]] = {}
    for topic, count in counts.items():
        (entry, *_) = [e for e in manifest["stores"].values() if e.get("changelog_topic") == topic]
        source = ChangelogSource(topic, count, entry)
        if entry.get("source_topics"):
            positions = positions_at_commit(source, committed, records)
            cut[topic] = {partition: at or 0 for partition, at in positions.items()}
        else:
            cut[topic] = end_positions(options, source)
    return json.dumps(cut, sort_keys=True)
