"""Every name that is derived from an application id.

>>> changelog_topic("shop", "spending"), topic_name("shop", "orders", is_internal=False)
('shop-spending-changelog', 'orders')
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_CHANGELOG = "-changelog"
_GENERATION = re.compile(r"g\d+\..+-(changelog|repartition|topic)$")
REPARTITION_SUFFIX = "-repartition"

#: what brokers accept as the name of a topic
TOPIC_NAME_PATTERN = r"^[a-zA-Z0-9._-]{1,249}$"
#: more partitions than any cluster holds; a larger number in a record is damage
PARTITIONS_MAX = 100_000


def topic_name(application_id: str, name: str, *, is_internal: bool) -> str:
    """Return the topic that a topology calls ``name``: internal ones have the id as prefix."""
    return f"{application_id}-{name}" if is_internal else name


def changelog_name(store: str) -> str:
    """Return the name of a store's changelog in a topology."""
    return store + _CHANGELOG


def changelog_topic(application_id: str, store: str) -> str:
    """Return the changelog topic of a store, unless the store reuses its source topic."""
    return f"{application_id}-{changelog_name(store)}"


def is_changelog(application_id: str, topic: str) -> bool:
    """Return whether a topic is named like a changelog of the application."""
    return topic.startswith(f"{application_id}-") and topic.endswith(_CHANGELOG)


def store_of(application_id: str, changelog: str) -> str:
    """Return the store whose changelog is a topic, by the topic's name.

    >>> store_of("shop", "shop-spending-changelog")
    'spending'
    """
    return changelog.removeprefix(f"{application_id}-").removesuffix(_CHANGELOG)


def is_repartition(application_id: str, topic: str) -> bool:
    """Return whether a topic is named like a repartition topic of the application."""
    is_of_foreign_key_join = "subscription-re" in topic.lower() and topic.endswith("-topic")
    is_named_so = topic.endswith(REPARTITION_SUFFIX) or is_of_foreign_key_join
    return topic.startswith(f"{application_id}-") and is_named_so


def generation_of(number: int, name: str) -> str:
    """Return the name of a store or a topic after its state was moved to other partitions.

    >>> generation_of(2, "spend")
    'g2.spend'
    """
    return f"g{number}.{name}"


def cuts_topic(application_id: str) -> str:
    """Return the compacted, one-partition topic of the manifest and of oversized cuts."""
    return f"{application_id}-cuts"


def application_of_cuts_topic(topic: str) -> str | None:
    """Return the application whose cuts topic it could be; None for other names.

    >>> application_of_cuts_topic(cuts_topic("shop")), application_of_cuts_topic("orders")
    ('shop', None)
    """
    application_id = topic.removesuffix(cuts_topic(""))
    return None if application_id in ("", topic) else application_id


def conflicting_topics(application_id: str, topics: Iterable[str]) -> set[str]:
    """Return other applications of these topics that could share a topic name with this one.

    >>> conflicting_topics("shop", ["shop-cuts", "shop-eu-cuts", "shopping-cuts", "eu-cuts"])
    {'shop-eu'}
    >>> conflicting_topics("shop-eu", ["shop-cuts", "shop-eu-cuts", "eu-cuts"])
    {'shop'}
    """
    found = {application_of_cuts_topic(topic) or application_id for topic in topics}
    ours = f"{application_id}-"
    return {one for one in found if one.startswith(ours) or ours.startswith(f"{one}-")} - {
        application_id
    }


def shorter_ids(application_id: str) -> list[str]:
    """Return the application ids that are prefixes of this one, up to a dash.

    >>> shorter_ids("shop-eu-2")
    ['shop', 'shop-eu']
    """
    parts = application_id.split("-")
    return ["-".join(parts[:count]) for count in range(1, len(parts))]


def name_conflict(topic: str, topics: Iterable[str]) -> str:
    """Return why brokers refuse a topic because of these topics; empty if they do not.

    >>> name_conflict("my_app-cuts", ["my.app-cuts", "orders"])[:66]
    "topic 'my_app-cuts' cannot be made: there is 'my.app-cuts', which "
    """
    for other in topics:
        if other != topic and other.replace(".", "_") == topic.replace(".", "_"):
            return (
                f"topic {topic!r} cannot be made: there is {other!r}, which differs in '.' and '_'"
                " only, and brokers refuse that. That topic probably belongs to another"
                " application, or to another store or repartition of this one: give this"
                " application another application_id, or rename the store or operator of the topic"
            )
    return ""


def instances_topic(application_id: str) -> str:
    """Return the compacted, one-partition topic by which instances discover each other."""
    return f"{application_id}-logstate-instances"


def named_cuts_topic(application_id: str) -> str:
    """Return the compacted, one-partition topic with the content and place of each named cut."""
    return f"{application_id}-logstate-named-cuts"


def snapshots_topic(application_id: str) -> str:
    """Return the one-partition topic of the messages of a snapshot's coordinator and workers."""
    return f"{application_id}-logstate-snapshots"


def cut_copies(application_id: str, cut: str = "") -> str:
    """Return the prefix of the topics of a named cut, its copies and its claim; or of all cuts."""
    return f"{application_id}-logstate-cut.{f'{cut}.' if cut else ''}"


def cut_copy_topic(application_id: str, cut: str, store: str) -> str:
    """Return the topic with a named cut's copy of a store. Its suffix differs from changelogs.

    >>> cut_copy_topic("shop", "before-v2", "spending")
    'shop-logstate-cut.before-v2.spending.rows'
    """
    return f"{cut_copies(application_id, cut)}{store}.rows"


def cut_claim_topic(application_id: str, cut: str) -> str:
    """Return the topic that exists while a named cut is made: its creator makes the cut.

    >>> cut_claim_topic("shop", "before-v2")
    'shop-logstate-cut.before-v2.claim'
    """
    return f"{cut_copies(application_id, cut)}claim"


def is_of_named_cut(application_id: str, topic: str) -> bool:
    """Return whether a topic belongs to the named cuts of an application."""
    is_of_one = topic.startswith(cut_copies(application_id))
    return is_of_one or topic == named_cuts_topic(application_id)


def is_internal(application_id: str, topic: str) -> bool:
    """Return whether a topic is named like one that the application creates for itself.

    >>> is_internal("shop", "shop-spending-changelog"), is_internal("shop", "shop-orders")
    (True, False)
    """
    return (
        topic in (cuts_topic(application_id), instances_topic(application_id))
        or topic == snapshots_topic(application_id)
        or is_changelog(application_id, topic)
        or is_repartition(application_id, topic)
        or is_own_beside_the_plan(application_id, topic)
    )


def is_own_beside_the_plan(application_id: str, topic: str) -> bool:
    """Return whether a topic is the application's own although its topology does not name it: one
    of a named cut, or one that was named when state was moved.
    """
    return is_of_generation(application_id, topic) or is_of_named_cut(application_id, topic)


def is_of_generation(application_id: str, topic: str) -> bool:
    """Return whether a topic was named when state of the application was moved to other partitions.

    >>> is_of_generation("shop", "shop-g2.spend-changelog")
    True
    """
    rest = topic.removeprefix(f"{application_id}-")
    return rest != topic and _GENERATION.match(rest) is not None


def transactional_id(application_id: str, instance_id: str, slot: int) -> str:
    """Return the id of an instance's producer; slots separate instances of one state directory."""
    return f"{application_id}-{instance_id}-{slot}"


def offline_transactional_id(application_id: str) -> str:
    """Return the id of the producer that changes a stopped application: the next fences it."""
    return f"{application_id}-logstate-offline"


def static_member_id(application_id: str, instance_id: str) -> str:
    """Return Kafka's ``group.instance.id`` of an instance."""
    return f"{application_id}-{instance_id}"
