"""Names that are derived from an application id: they are on disks and brokers, so they stay."""

from __future__ import annotations

from logstate.contracts.topic_names import (
    REPARTITION_SUFFIX,
    changelog_name,
    changelog_topic,
    cuts_topic,
    is_changelog,
    static_member_id,
    topic_name,
    transactional_id,
)


def test_names_that_begin_with_the_application_id() -> None:
    assert cuts_topic("app") == "app-cuts"
    assert changelog_topic("app", "counts") == "app-counts-changelog"
    assert topic_name("app", changelog_name("counts"), is_internal=True) == "app-counts-changelog"
    assert topic_name("app", f"by{REPARTITION_SUFFIX}", is_internal=True) == "app-by-repartition"
    assert topic_name("app", "orders", is_internal=False) == "orders"
    assert transactional_id("app", "1f", 0) == "app-1f-0"
    assert static_member_id("app", "1f") == "app-1f"


def test_a_changelog_is_known_by_both_ends_of_its_name() -> None:
    assert is_changelog("app", "app-counts-changelog")
    assert not is_changelog("app", "another-counts-changelog")
    assert not is_changelog("app", "app-cuts")
