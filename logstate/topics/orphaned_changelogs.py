"""Changelogs of stores: who made them, and whether rows of earlier stores lie in them. Pure.

A manifest names the log of each store that there is or was. Not each of them is the application's:
a table may be kept in its source topic, and what Kafka Streams left may belong to an application
whose id begins alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logstate.changelog.stored_manifest import is_own_topic
from logstate.contracts.topic_names import changelog_topic

Entry = Mapping[str, Any]

#: the kind of what was given up when an application was taken over from the JVM
OF_KAFKA_STREAMS = "store of Kafka Streams"
#: marks what nobody reads since the rows were moved to other partitions
MOVED_AWAY = "moved_away"


def is_own_log(application_id: str, name: str, entry: Entry) -> bool:
    """Whether the application made the changelog of an entry, and nobody else writes it."""
    if entry.get(MOVED_AWAY):
        moved = entry["changelog_topic"]
        return moved is not None and is_own_topic(application_id, moved)
    if entry["kind"] == OF_KAFKA_STREAMS or is_in_its_source(entry):
        return False
    own = changelog_topic(application_id, entry.get("logged_as", name))
    return bool(entry["changelog_topic"] == own)


def is_in_its_source(entry: Entry) -> bool:
    """Whether a store is kept in the topic that it reads, which is of others."""
    return entry["changelog_topic"] in entry.get("source_topics", ())


def may_hold_rows_of(entry: Entry, declared: Entry) -> bool:
    """Whether a declared store would find the rows of one that was given up in its changelog.

    It would if that was not deleted since, whatever the two are called.
    """
    log, now = declared["changelog_topic"], declared.get("changelog_topic_id")
    if now is None or log != entry["changelog_topic"] or is_in_its_source(declared):
        return False
    return entry.get("changelog_topic_id") in (None, now)
