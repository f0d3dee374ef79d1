"""Changelogs of stores, told apart by who made them, and where rows of earlier stores may lie. Pure.

A manifest names the log of each store that there is or was. Not each of them is the application's:
a table may be kept in its source topic, and what Kafka Streams left may belong to an application
whose id begins alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from logstate.contracts.topic_names import changelog_topic

Entry = Mapping[str, Any]

#: the kind of what was given up when an application was taken over from the JVM
OF_KAFKA_STREAMS = "store of Kafka Streams"
_GENERATION = re.compile(r"g\d+\.(.+)")


def is_own_log(application_id: str, name: str, entry: Entry) -> bool:
    """Whether the application made the changelog of a store, and nobody else writes it."""
    if entry["kind"] == OF_KAFKA_STREAMS or is_in_its_source(entry):
        return False
    own = changelog_topic(application_id, entry.get("logged_as", name))
    return bool(entry["changelog_topic"] == own)


def is_in_its_source(entry: Entry) -> bool:
    """Whether a store is kept in the topic that it reads, which is of others."""
    return entry["changelog_topic"] in entry.get("source_topics", ())


def may_hold_rows_of(name: str, entry: Entry, declared: Entry, application_id: str) -> bool:
    """Whether the log of a declared store may have rows of an earlier one in it.

    That is the log which the earlier one had last, if it was not deleted since; and if its rows
    were moved to other partitions, any that it had before: ``reshard`` may have kept it.
    """
    log, now = declared["changelog_topic"], declared.get("changelog_topic_id")
    if log is None or is_in_its_source(declared):
        return False
    if log == entry["changelog_topic"]:
        before = entry.get("changelog_topic_id")
        return before is None or before == now
    moved = _GENERATION.fullmatch(entry.get("logged_as", ""))
    if moved is None or now is None:
        return False
    earlier = {name, moved[1], *entry.get("formerly", ())}
    return log in {changelog_topic(application_id, one) for one in earlier}
