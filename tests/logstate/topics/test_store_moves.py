"""What has to move so that an application can go on with other partition counts."""

from __future__ import annotations

from typing import Any

import pytest

from logstate import Materialized, StreamsBuilder
from logstate.contracts.compatibility import NOTHING_DECIDED
from logstate.contracts.errors import UpgradeError
from logstate.topics.manifest import manifest
from logstate.topics.store_moves import Moves, planned, without_mark
from logstate.topics.upgrade import accepted, logged_as_stored
from tests.logstate.plans import by_word, plan_of


def moved(declare: Any, before: int, after: int, existing: tuple[str, ...] = ()) -> Moves:
    stored = manifest(plan_of(declare, **{"in": before}, out=1))
    return planned(plan_of(declare, **{"in": after}, out=1), stored, existing)


def test_a_store_and_the_topic_before_it_get_successors_of_the_new_count() -> None:
    moves = moved(by_word, 4, 6)

    assert moves.counts == {"counts": (4, 6)}
    assert moves.targets == {"app-g1.counts-changelog", "app-g1.by-word-repartition"}
    assert set(moves.given_up) == {"app-counts-changelog", "app-by-word-repartition"}
    assert moves.plan.partition_counts["app-g1.by-word-repartition"] == 6


def test_the_application_starts_over_the_manifest_of_the_move_and_only_there() -> None:
    then = manifest(moved(by_word, 4, 6).plan)
    plan = logged_as_stored(plan_of(by_word, **{"in": 6}, out=1), then, NOTHING_DECIDED)

    assert plan.changelog_topics == {"counts": "app-g1.counts-changelog"}
    assert plan.repartition_topics == {"app-g1.by-word-repartition"}
    assert manifest(plan) == then
    accepted(plan, then, NOTHING_DECIDED)
    other = logged_as_stored(plan_of(by_word, **{"in": 4}, out=1), then, NOTHING_DECIDED)
    with pytest.raises(UpgradeError, match="partitions"):
        accepted(other, then, NOTHING_DECIDED)


def test_the_next_move_is_of_the_next_generation() -> None:
    first = manifest(moved(by_word, 4, 6).plan)
    existing = ("app-g1.counts-changelog", "app-g1.by-word-repartition")
    again = planned(plan_of(by_word, **{"in": 3}, out=1), first, existing)

    assert again.targets == {"app-g2.counts-changelog", "app-g2.by-word-repartition"}
    assert set(again.given_up) == set(existing)


def test_nothing_moves_where_the_counts_are_the_same() -> None:
    moves = moved(by_word, 4, 4)

    assert not moves.stores
    assert not moves.drained
    assert not moves.left
    assert not moves.targets


def test_a_topic_with_a_count_of_its_own_stays_with_what_is_behind_it() -> None:
    def declare(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        stream.group_by_key().count(store="near")
        behind = stream.select_key(lambda _, value: value, key=str)
        behind.repartition(name="fixed", partitions=2).group_by_key().count(store="far")

    moves = moved(declare, 4, 6)

    assert moves.counts == {"near": (4, 6)}
    assert not moves.drained


def test_an_input_that_takes_the_place_of_another_leaves_the_other_behind() -> None:
    def declare(topic: str) -> Any:
        return lambda builder: (
            builder.stream(topic, key=str, value=str).group_by_key().count(store="counts")
        )

    stored = manifest(plan_of(declare("in"), **{"in": 4}))
    moves = planned(plan_of(declare("wide"), wide=6), stored, ())

    assert moves.left == ("in",)
    assert moves.counts == {"counts": (4, 6)}


def test_a_table_kept_in_its_source_topic_cannot_move() -> None:
    def declare(builder: StreamsBuilder) -> None:
        builder.table("in", key=str, value=str, store=Materialized("rows"))

    before = plan_of(declare, **{"in": 4})
    stored = manifest(before)
    assert moved(declare, 4, 6).counts == {"rows": (4, 6)}
    stored["stores"]["rows"]["kind"] = "session"  # and a topology that changes besides
    with pytest.raises(UpgradeError, match="does not fit what is stored"):
        planned(plan_of(declare, **{"in": 6}), stored, ())


def test_a_mark_is_no_part_of_the_manifest_that_it_stands_in() -> None:
    stored = manifest(plan_of(by_word, **{"in": 4}, out=1))
    marked = {**stored, "resharding_since": "now", "resharding_topics": ["a"]}

    assert without_mark(marked) == stored
    with pytest.raises(UpgradeError, match="--give-up"):
        accepted(plan_of(by_word, **{"in": 4}, out=1), marked, NOTHING_DECIDED)
