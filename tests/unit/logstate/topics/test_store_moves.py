"""What has to move so that an application can go on with other partition counts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from logstate import Materialized, StreamsBuilder, TumblingWindows, serdes, until_time_limit
from logstate.contracts.compatibility import NOTHING_DECIDED
from logstate.contracts.errors import UpgradeError
from logstate.topics.manifest import manifest
from logstate.topics.store_moves import Moves, planned, without_mark
from logstate.topics.upgrade import accepted, logged_as_stored
from tests.unit.logstate.plans import by_word, plan_of


def moved(declare: Any, before: int, after: int, existing: tuple[str, ...] = ()) -> Moves:
    stored = manifest(plan_of(declare, **{"in": before}, out=1))
    return planned(plan_of(declare, **{"in": after}, out=1), stored, existing)


def test_a_store_and_the_topic_before_it_get_successors_of_the_new_count() -> None:
    moves = moved(by_word, 4, 6)

    assert moves.counts == {"counts": (4, 6)}
    assert moves.targets == {"app-g1.counts-changelog", "app-g1.by-word-repartition"}
    assert set(moves.unused_topics) == {"app-counts-changelog", "app-by-word-repartition"}
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


def test_a_store_keeps_the_names_that_it_had_before_it_was_renamed() -> None:
    stored = manifest(plan_of(by_word, **{"in": 4}, out=1))
    stored["stores"]["counts"]["formerly"] = ["tallies"]
    moves = planned(plan_of(by_word, **{"in": 6}, out=1), stored, ())

    assert manifest(moves.plan)["stores"]["counts"]["formerly"] == ["tallies"]


def test_the_next_move_is_of_the_next_generation() -> None:
    first = manifest(moved(by_word, 4, 6).plan)
    existing = ("app-g1.counts-changelog", "app-g1.by-word-repartition")
    again = planned(plan_of(by_word, **{"in": 3}, out=1), first, existing)

    assert again.targets == {"app-g2.counts-changelog", "app-g2.by-word-repartition"}
    assert set(again.unused_topics) == set(existing)


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
    with pytest.raises(UpgradeError, match="does not fit the stored state"):
        planned(plan_of(declare, **{"in": 6}), stored, ())


def test_a_mark_is_no_part_of_the_manifest_that_it_stands_in() -> None:
    stored = manifest(plan_of(by_word, **{"in": 4}, out=1))
    marked = {**stored, "resharding_since": "now", "resharding_topics": ["a"]}

    assert without_mark(marked) == stored
    with pytest.raises(UpgradeError, match="--give-up"):
        accepted(plan_of(by_word, **{"in": 4}, out=1), marked, NOTHING_DECIDED)


WINDOWS = TumblingWindows(size=timedelta(seconds=1))
WINDOWED = serdes.windowed(str, WINDOWS)


def regrouped(builder: StreamsBuilder) -> None:
    """Counts of windows, and of what is repartitioned by these, held back until they are final."""
    windowed = builder.stream("in", key=str, value=str).group_by_key().windowed_by(WINDOWS)
    counts = windowed.count(store="counts")
    rows = counts.group_by(lambda key, count: (key, count), key=WINDOWED, value=int, name="rows")
    totals = rows.count(store="totals")
    totals.suppress(until_time_limit(timedelta(seconds=1)), name="held").to_stream().to("out")


def of_an_earlier_version(stored: dict[str, Any]) -> dict[str, Any]:
    """Its manifest, which knew nothing of windows that are hashed."""
    topics = {
        name: {part: told for part, told in entry.items() if part != "hashes_windows"}
        for name, entry in stored["topics"].items()
    }
    stores = {
        name: {part: told for part, told in entry.items() if part != "hashed_windows"}
        for name, entry in stored["stores"].items()
    }
    return {**stored, "version": 1, "topics": topics, "stores": stores}


def test_rows_of_windowed_keys_that_an_earlier_version_placed_move_to_as_many_partitions() -> None:
    plan = plan_of(regrouped, **{"in": 4}, out=1)
    stored = of_an_earlier_version(manifest(plan))
    with pytest.raises(UpgradeError, match=r"'app-rows-repartition'.*placement.*reshard"):
        accepted(plan, stored, NOTHING_DECIDED)

    moves = planned(plan, stored, ())

    assert moves.counts == {"totals": (4, 4), "held-store": (4, 4)}
    assert moves.drained == ("app-rows-repartition",)
    assert {(one.hashed_before, one.hashed_after) for one in moves.stores} == {(0, 1)}
    then = manifest(moves.plan)
    now = logged_as_stored(plan, then, NOTHING_DECIDED)
    assert accepted(now, then, NOTHING_DECIDED) is now
    again = planned(plan, then, ())
    assert not again.stores
    assert not again.drained


def test_rows_of_windowed_keys_in_one_partition_stay_and_their_manifest_says_how_they_lie() -> None:
    plan = plan_of(regrouped, **{"in": 1}, out=1)
    own = manifest(plan)

    assert accepted(plan, of_an_earlier_version(own), NOTHING_DECIDED) is not None
    assert (own["version"], own["topics"]["app-rows-repartition"]["hashes_windows"]) == (2, True)
    assert manifest(plan_of(by_word, **{"in": 1}, out=1))["version"] == 1


def test_windowed_keys_of_both_kinds_of_topics_in_one_store_cannot_move() -> None:
    def declare(builder: StreamsBuilder) -> None:
        written = builder.stream("in", key=WINDOWED, value=str)
        again = written.repartition(name="again")
        written.merge(again).group_by_key().count(store="both")

    with pytest.raises(UpgradeError, match=r"store 'both' has rows of windowed keys"):
        moved(declare, 4, 6)
    stores = manifest(plan_of(declare, **{"in": 4}))["stores"]
    assert stores["both"]["placed_by"] is None


def test_a_reader_looks_for_a_key_whose_window_was_hashed_in_every_partition() -> None:
    stores = manifest(plan_of(regrouped, **{"in": 4}, out=1))["stores"]

    assert (stores["totals"]["placed_by"], stores["totals"]["hashed_windows"]) == (None, 1)
