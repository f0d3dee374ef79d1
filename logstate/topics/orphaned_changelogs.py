"""Changelogs of stores: who created them, and whether they contain rows of earlier stores.

A manifest names the log of each current or former store. Not each of them belongs to the
application: a table may be kept in its source topic, and topics of Kafka Streams may belong to an
application whose id begins like this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logstate.changelog.stored_manifest import is_own_topic
from logstate.contracts.topic_names import changelog_topic

Entry = Mapping[str, Any]

#: the kind of stores that were left behind when an application was taken over from the JVM
OF_KAFKA_STREAMS = "store of Kafka Streams"
#: marks topics that are unused since the rows were moved to other partitions
MOVED_AWAY = "moved_away"


def is_own_log(application_id: str, name: str, entry: Entry) -> bool:
    """Return whether the application created the changelog of an entry, and is its only writer."""
    if entry.get(MOVED_AWAY):
        moved = entry["changelog_topic"]
        return moved is not None and is_own_topic(application_id, moved)
    if entry["kind"] == OF_KAFKA_STREAMS or is_in_its_source(entry):
        return False
    own = changelog_topic(application_id, entry.get("logged_as", name))
    return bool(entry["changelog_topic"] == own)


def is_in_its_source(entry: Entry) -> bool:
    """Return whether a store is kept in the external topic that it reads."""
    return entry["changelog_topic"] in entry.get("source_topics", ())


def may_hold_rows_of(entry: Entry, declared: Entry) -> bool:
    """Return whether a declared store would find the rows of a forgotten one in its changelog.

    It would if that topic was not deleted since, whatever the names of the two stores.
    """
    log, now = declared["changelog_topic"], declared.get("changelog_topic_id")
    if now is None or log != entry["changelog_topic"] or is_in_its_source(declared):
        return False
    return entry.get("changelog_topic_id") in (None, now)
