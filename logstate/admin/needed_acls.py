"""The minimal permissions that an application needs on the brokers.

Names are those of :mod:`logstate.contracts.topic_names`. Read, Write, Create and Delete allow
Describe as well, so it is never named. ``tests/broker/test_acls.py`` proves both directions: the
list suffices, and no entry can be left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from logstate.changelog.stores.kinds import kind_of
from logstate.contracts.topic_names import cuts_topic, instances_topic
from logstate.topics.bound_plan import BoundPlan, external_topics
from logstate.topology.plan.pattern_topics import patterns_of
from logstate.topology.plan.plan import Topology

TOPIC, GROUP, TRANSACTIONAL_ID = "topic", "group", "transactional-id"


class NeededAcl(NamedTuple):
    """One permission, in the terms of ``kafka-acls``."""

    #: ``topic``, ``group`` or ``transactional-id``
    resource: str
    name: str
    #: whether the name is a prefix of names
    is_prefix: bool
    #: ``Read``, ``Write``, ``Create``, ``Delete``, ``DescribeConfigs``
    operation: str
    #: what it is needed for
    why: str


def needed_acls(
    topology: Topology,
    application_id: str,
    *,
    serves: bool = False,
    dead_letter_topic: str | None = None,
    creates: bool = True,
) -> list[NeededAcl]:
    """Return all permissions, each once.

    ``serves``: instances share metadata (``serve=``, ``standby_replicas=``); ``creates``: not all
    of its topics exist already; a dead-letter topic is written to.
    """
    plan = BoundPlan(application_id, topology, {})
    found = [
        NeededAcl(GROUP, application_id, False, "Read", "to be a member, and to commit offsets"),
        NeededAcl(
            TRANSACTIONAL_ID, f"{application_id}-", True, "Write", "commits; one id per worker"
        ),
        *_of_others(plan, dead_letter_topic),
        *_of_own(plan, serves=serves, creates=creates),
    ]
    return list({acl[:4]: acl for acl in reversed(found)}.values())[::-1]


def patterns_read(topology: Topology) -> list[str]:
    """Return the patterns of sources: each matching topic needs a separate permission."""
    return sorted({topic.name for source in patterns_of(topology) for topic in source.topics})


def _of_others(plan: BoundPlan, dead_letter_topic: str | None) -> Iterator[NeededAcl]:
    topology = plan.topology
    patterns = set(patterns_read(topology))
    for name in external_topics(topology):
        if name not in patterns:
            yield _topic(name, "Read", "it is read")
    for spec in topology.stores.values():
        if spec.source_topic is not None:
            why = f"store {spec.name!r} is restored from it: its cleanup.policy is checked"
            yield _topic(spec.source_topic, "DescribeConfigs", why)
    sinks = {ref.name for sub in topology.sub_topologies for ref in sub.sink_topics}
    own = {topic.topic.name for topic in topology.internal_topics}
    for name in sorted(sinks - own):
        yield _topic(name, "Write", "it is written")
    if dead_letter_topic is not None:
        yield _topic(dead_letter_topic, "Write", "records that failed are written there")


def _of_own(plan: BoundPlan, *, serves: bool, creates: bool) -> Iterator[NeededAcl]:
    cuts = cuts_topic(plan.application_id)
    yield from _acls_of_topic(cuts, "manifest and large cuts", creates=creates)
    for spec in plan.topology.stores.values():
        name = plan.changelog_topic(spec)
        if name is not None and spec.source_topic is None:
            yield from _acls_of_topic(name, f"changelog of store {spec.name!r}", creates=creates)
            if kind_of(spec).is_segmented:
                yield _topic(name, "Delete", f"expired rows of store {spec.name!r} are deleted")
    for name in sorted(plan.repartition_topics):
        yield from _acls_of_topic(name, "records between sub-topologies", creates=creates)
        yield _topic(name, "Delete", "records that were processed are deleted")
    if serves:
        name = instances_topic(plan.application_id)
        operations = ("Create", "Read", "Write") if creates else ("Read", "Write")
        for operation in operations:
            yield _topic(name, operation, "instances share their metadata there")


def _acls_of_topic(name: str, why: str, *, creates: bool) -> Iterable[NeededAcl]:
    operations = ("Read", "Write", "DescribeConfigs")
    for operation in ("Create", *operations) if creates else operations:
        yield _topic(name, operation, why)


def _topic(name: str, operation: str, why: str) -> NeededAcl:
    return NeededAcl(TOPIC, name, False, operation, why)
