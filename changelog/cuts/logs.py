"""The logs of an application: its manifest, and the changelog topic of each of its stores.

Invariants: a topic is identified by its id. A cut or checkpoint of one topic is never used with
another topic that was created under its name.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from logstate.changelog.cut import MANIFEST_KEY
from logstate.changelog.cuts.cut_value import CutValue
from logstate.changelog.stored_manifest import decode_manifest
from logstate.contracts.errors import ConfigError, RestoreError, TopicError
from logstate.contracts.records import TaskId, TopicPartition
from logstate.contracts.topic_names import cuts_topic


@dataclass(frozen=True)
class ChangelogSource:
    """A store's changelog, as the manifest describes it. Plain data, so it can be serialized."""

    topic: str
    topic_id: str
    """The topic's id when it was looked up: a topic that is created again is another log."""
    partitions: int
    entry: Mapping[str, Any]
    fixed_cut: CutValue | None = None
    """The cut of a copy that a named cut keeps: everything in the topic."""

    @property
    def name(self) -> str:
        return str(self.entry.get("name", self.topic))

    @property
    def logs(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, n) for n in range(self.partitions)]

    def task(self, partition: int) -> TaskId:
        """Return the task whose state is in the partition."""
        return TaskId(int(self.entry.get("sub_topology", 0)), partition)

    @property
    def inputs(self) -> list[str]:
        """Input topics of its tasks; empty for a global store, which commits nothing."""
        return list(self.entry.get("source_topics") or ())


def log_reader() -> ModuleType:
    """Return the module that reads logs. Raises ConfigError if the client library is missing."""
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
    config: Mapping[str, Any], application: str
) -> tuple[dict[str, Any], dict[bytes, bytes]]:
    """Return the manifest of an application and all records of its cuts topic.

    Raises TopicError if the application has never run on this cluster, RestoreError if the record
    is damaged.
    """
    partition = TopicPartition(cuts_topic(application), 0)
    try:
        records = log_reader().latest_values(config, partition)
        if MANIFEST_KEY not in records:
            records = log_reader().latest_values(config, partition, waits=True)
    except TopicError as error:
        brokers = config.get("bootstrap.servers")
        raise TopicError(
            f"application {application!r} has no topic {partition.topic!r} on {brokers}; it is "
            "created when the application first runs. Is the application id right?"
        ) from error
    if MANIFEST_KEY not in records:
        raise TopicError(
            f"topic {partition.topic!r} has no manifest; application {application!r} writes it "
            "before its first commit: has it started?"
        )
    return decode_manifest(records[MANIFEST_KEY], application), records


def changelog_source(topic: str, found: Any, entry: Mapping[str, Any]) -> ChangelogSource:
    """Return the changelog of a store. Raises TopicError if the topic differs from the manifest."""
    expected = entry.get("partitions", found.partitions)
    if found.partitions != expected:
        raise TopicError(
            f"{topic!r} has {found.partitions} partitions, but the store {entry.get('name')!r} was "
            f"declared with {expected}; the count is part of a store's identity, because it "
            "decides where a key lives. Partitions were added by hand: nothing is lost yet, and "
            "the application's own start says how to continue; `logstate reset` would delete the "
            "state"
        )
    check_topic_id(topic, entry.get("changelog_topic_id"), found.topic_id, "the application's")
    return ChangelogSource(topic, found.topic_id, found.partitions, entry)


def check_topic_id(topic: str, known: str | None, found: str, whose: str) -> None:
    """Raises RestoreError if the topic was deleted and created again since its id was noted."""
    if known and known != found:
        raise RestoreError(
            f"{topic!r} was deleted and created again: {whose} topic had the id {known}, and the "
            f"current one has {found}. Offsets of the old topic mean nothing in the new one, so "
            "nothing was read. Load the table again once the application has run; give a stream "
            "a new checkpoint and target"
        )


def sources_of(
    config: Mapping[str, Any], manifest: Mapping[str, Any]
) -> dict[str, ChangelogSource]:
    """Return every changelog of an application by its topic; stores that share one appear once.

    Raises TopicError if a topic does not exist.
    """
    entries = {
        entry["changelog_topic"]: {**entry, "name": name}
        for name, entry in reversed(manifest["stores"].items())
        if entry.get("changelog_topic") is not None
    }
    topics = log_reader().log_topics(config, entries) if entries else {}
    return {
        topic: changelog_source(topic, topics[topic], entry) for topic, entry in entries.items()
    }
