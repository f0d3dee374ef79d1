"""Every name that is derived from an application id. Pure.

>>> changelog_topic("shop", "spending"), topic_name("shop", "orders", is_internal=False)
('shop-spending-changelog', 'orders')
"""

from __future__ import annotations

_CHANGELOG = "-changelog"
REPARTITION_SUFFIX = "-repartition"


def topic_name(application_id: str, name: str, *, is_internal: bool) -> str:
    """The topic that a topology calls ``name``: internal ones begin with the application id."""
    return f"{application_id}-{name}" if is_internal else name


def changelog_name(store: str) -> str:
    """A store's changelog as a topology calls it."""
    return store + _CHANGELOG


def changelog_topic(application_id: str, store: str) -> str:
    """The topic that a store is logged to, unless it reuses its source topic."""
    return f"{application_id}-{changelog_name(store)}"


def is_changelog(application_id: str, topic: str) -> bool:
    """Whether a topic is named like a changelog of the application."""
    return topic.startswith(f"{application_id}-") and topic.endswith(_CHANGELOG)


def cuts_topic(application_id: str) -> str:
    """The compacted, one-partition topic of the manifest and of oversized cuts."""
    return f"{application_id}-cuts"


def transactional_id(application_id: str, instance_id: str, slot: int) -> str:
    """Of the producer of an instance; slots tell instances apart that share a state directory."""
    return f"{application_id}-{instance_id}-{slot}"


def static_member_id(application_id: str, instance_id: str) -> str:
    """Kafka's ``group.instance.id`` of an instance."""
    return f"{application_id}-{instance_id}"
