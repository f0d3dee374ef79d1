"""Hand an application over to Kafka Streams on the JVM: check its group, and list its stores.

A JVM instance that joins while a logstate member lives ends with a NullPointerException, because
the assignors do not understand each other. So one library has to stop before the other starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from logstate.contracts.clients import Admin, Step, Steps
from logstate.contracts.records import TopicPartition
from logstate.contracts.topic_names import changelog_topic, cuts_topic
from logstate.topics.manifest_changes import Entry, Manifest


class JvmStore(NamedTuple):
    """What a topology on the JVM has to declare to find a store."""

    name: str
    #: the name for Materialized.as or Stores; None if the JVM finds no rows
    name_on_the_jvm: str | None
    kind: str
    remark: str


def check_group_is_empty(admin: Admin, application_id: str) -> Steps[None]:
    """Raise MembersLiveError if the group of an application has a member.

    Tests it with a commit, which brokers accept from non-members only if a group has no member. The
    commit is for a topic that is not an input, and has no effect.
    """
    unread = TopicPartition(cuts_topic(application_id), 0)
    yield Step(
        "commit_without_members", admin.commit_without_members, (application_id, {unread: 0})
    )


def stores_for_the_jvm(stored: Manifest) -> Iterator[JvmStore]:
    """Yield every store of a manifest, as the JVM has to name it."""
    for name, entry in stored["stores"].items():
        changelog = entry["changelog_topic"]
        if changelog is None:
            remark = "not logged: its rows are only local, and the JVM does not find them"
            yield JvmStore(name, None, entry["kind"], remark)
            continue
        logged_as = entry.get("logged_as") or name
        is_own = changelog == changelog_topic(stored["application_id"], logged_as)
        name_on_the_jvm = logged_as if is_own else name
        yield JvmStore(
            name, name_on_the_jvm, entry["kind"], _describe_instance(entry, is_own=is_own)
        )


def _describe_instance(entry: Entry, *, is_own: bool) -> str:
    remarks = []
    if not is_own:
        remarks.append(f"kept in {entry['changelog_topic']!r}: topology.optimization=all")
    if any((entry.get(side) or {}).get("format") == "upgradable" for side in ("key", "value")):
        remarks.append("its rows begin with their version: they need a serde of yours")
    return "; ".join(remarks)
