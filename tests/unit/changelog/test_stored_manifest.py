"""A manifest that somebody else wrote, or that was damaged, is refused before anything uses it."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.admin.handover import stores_for_the_jvm
from logstate.admin.reset import planned_reset
from logstate.changelog.stored_manifest import (
    NESTING_MAX,
    check_manifest,
    check_topics_are_own,
    decode_manifest,
    topics_of_others,
)
from logstate.contracts.clients import run_steps
from logstate.contracts.compatibility import NOTHING_DECIDED
from logstate.contracts.errors import ConfigError, LogstateError, RestoreError
from logstate.testing import FakeCluster
from logstate.topics.displayed_records import log_of_entry
from logstate.topics.manifest import content, manifest
from logstate.topics.store_moves import planned
from logstate.topics.upgrade import accepted, check_no_operation_in_progress, logged_as_stored
from logstate.topology import StreamsBuilder, TumblingWindows
from tests.damaged import damaged_json, deep
from tests.unit.logstate.plans import plan_of


def declared(builder: StreamsBuilder) -> None:
    """A repartition, a count, a windowed count, a table."""
    stream = builder.stream("in", key=str, value=str)
    words = stream.group_by(lambda value: value, name="by-word", key=str)
    words.count(store="counts")
    windows = TumblingWindows(size=timedelta(seconds=5), grace=timedelta(seconds=1))
    words.windowed_by(windows).count(store="per-window")


PLAN = plan_of(declared, **{"in": 2})
STORED = {
    **manifest(PLAN),
    "resharding_topics": ["app-g1.counts-changelog"],
    "forgotten": {
        "app-old-changelog": {
            "kind": "before it was moved",
            "changelog_topic": "app-old-changelog",
            "changelog_topic_id": None,
            "moved_away": True,
        }
    },
}
#: topics on the brokers that application "app" did not create
OTHERS = ("payments", "orders-of-others", "app", "app-orders", "apple-x-changelog", "in")


def encoded(stored: Any) -> bytes:
    return json.dumps(stored).encode()


def used(stored: dict[str, Any]) -> None:
    """Everything that is made of a manifest without a broker."""
    cluster = FakeCluster({**dict.fromkeys(OTHERS, 2), "app-cuts": 1})
    plan = run_steps(planned_reset(cluster.admin(), "app", stored, "earliest"))
    assert not set(OTHERS) & set(plan.topics)
    assert all(topic.startswith("app-") for topic in plan.topics)
    str(plan)
    list(stores_for_the_jvm(stored))
    for name, entry in stored["stores"].items():
        log_of_entry(name, entry, str(entry["changelog_topic"]), 1)
    for use in (
        lambda: check_no_operation_in_progress("app", stored),
        lambda: check_topics_are_own("app", stored),
        lambda: accepted(logged_as_stored(PLAN, stored, NOTHING_DECIDED), stored, NOTHING_DECIDED),
        lambda: planned(PLAN, stored, ()),
    ):
        with suppress(LogstateError):
            use()


@given(damaged_json(STORED))
def test_a_damaged_manifest_is_refused_or_can_be_used(value: bytes) -> None:
    try:
        stored = decode_manifest(value, "app")
    except RestoreError:
        return
    used(stored)


def test_every_manifest_of_a_topology_is_read_back() -> None:
    value = msgspec.json.encode(content(PLAN))
    assert decode_manifest(value, "app") == manifest(PLAN)
    used(decode_manifest(encoded(STORED), "app"))


@pytest.mark.parametrize(
    ("place", "other", "told"),
    [
        (("stores",), None, "$.stores"),
        (("stores", "counts", "partitions"), 2**40, "$.stores[...].partitions"),
        (("stores", "counts", "partitions"), "2", "$.stores[...].partitions"),
        (("stores", "counts", "changelog_topic"), "a/b", "$.stores[...].changelog_topic"),
        (("stores", "counts", "source_topics"), "in", "$.stores[...].source_topics"),
        (("stores", "counts", "key"), {"format": "windowed"}, "in the `inner` key"),
        (("topics", "app-by-word-repartition", "partitions"), 0, "$.topics[...].partitions"),
        (("inputs",), [["in"]], "$.inputs[0]"),
        (("forgotten", "app-old-changelog", "kind"), None, "$.forgotten[...].kind"),
        (("resharding_topics",), "payments", "$.resharding_topics"),
        (("version",), "1", "$.version"),
    ],
)
def test_the_error_names_the_key(place: tuple[str, ...], other: object, told: str) -> None:
    stored = json.loads(encoded(STORED))
    inside = stored
    for name in place[:-1]:
        inside = inside[name]
    inside[place[-1]] = other
    with pytest.raises(RestoreError) as caught:
        decode_manifest(encoded(stored), "app")
    assert told in str(caught.value)
    assert "Write the last good value of the key 'manifest' there again" in str(caught.value)


@pytest.mark.parametrize("levels", [NESTING_MAX, 900, 5_000, 100_000])
def test_a_manifest_that_is_nested_too_deeply_is_refused(levels: int) -> None:
    value = encoded({**STORED, "later": "put here"}).replace(b'"put here"', deep(levels))
    with pytest.raises(RestoreError, match="nested"):
        decode_manifest(value, "app")


def test_a_manifest_that_no_start_would_read_back_is_not_written() -> None:
    key = msgspec.json.decode(deep(NESTING_MAX, "{"))
    stored = {**STORED, "stores": {"counts": {**STORED["stores"]["counts"], "key": key}}}
    with pytest.raises(ConfigError, match="cannot be stored: lists and maps are nested deeper"):
        check_manifest(stored)


def test_a_manifest_of_another_application_is_refused() -> None:
    with pytest.raises(RestoreError, match="belongs to application 'app'"):
        decode_manifest(encoded(STORED), "shop")


def test_a_manifest_of_a_newer_version_with_other_keys_is_told_from_damage() -> None:
    newer = {"version": 3, "application_id": "app", "tables": {}}
    with pytest.raises(RestoreError, match="has version 3, and this logstate reads version 2"):
        decode_manifest(encoded(newer), "app")


@pytest.mark.parametrize(
    ("forged", "role"),
    [
        ({"topics": {"payments": {"partitions": 2}}}, "a repartition topic"),
        (
            {"topics": {"app-x-repartition": {"partitions": 2, "usual_name": "payments"}}},
            "a repartition topic",
        ),
        ({"resharding_topics": ["payments"]}, "a topic of a move to other partitions"),
        (
            {"forgotten": {"x": {"kind": "k", "changelog_topic": "payments", "moved_away": True}}},
            "a topic whose rows were moved away",
        ),
        (
            {
                "stores": {
                    "s": {**STORED["stores"]["counts"], "changelog_topic": "payments"},
                }
            },
            "the changelog of store 's'",
        ),
    ],
)
def test_no_topic_of_others_counts_as_the_applications(forged: dict[str, Any], role: str) -> None:
    stored = decode_manifest(encoded({**STORED, **forged}), "app")
    assert topics_of_others("app", stored) == {"payments": role}
    with pytest.raises(RestoreError, match=f"names 'payments' as {role}"):
        check_topics_are_own("app", stored)
    used(stored)


NAMES = st.sampled_from(
    [*OTHERS, "app-counts-changelog", "app-x-repartition", "app-g3.x-changelog", "app-cuts"]
)


@given(st.lists(NAMES), st.lists(NAMES), st.lists(NAMES), st.lists(NAMES))
def test_whatever_a_manifest_names_only_own_topics_are_deleted(
    repartitions: list[str], moving: list[str], moved: list[str], inputs: list[str]
) -> None:
    used(
        {
            **STORED,
            "inputs": inputs,
            "topics": {name: {"partitions": 1} for name in repartitions},
            "resharding_topics": moving,
            "forgotten": {
                name: {"kind": "moved", "changelog_topic": name, "moved_away": True}
                for name in moved
            },
        }
    )
