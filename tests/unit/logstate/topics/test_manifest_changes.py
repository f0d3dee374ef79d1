"""What is compared with manifests that know less, and what decisions do."""

from __future__ import annotations

from typing import Any

import pytest

from logstate.contracts.clients import run_steps
from logstate.contracts.compatibility import MigrationOptions, Verdict, worst
from logstate.contracts.errors import UpgradeError
from logstate.testing import FakeCluster
from logstate.topics.internal_topics import check_topics_of_others, prepare
from logstate.topics.manifest import manifest
from logstate.topics.manifest_changes import manifest_changes, renames
from logstate.topology import Processor, StreamsBuilder, key_value_store
from tests.campaigns.upgrades.topologies import (
    both,
    by_value,
    counted,
    counted_beside,
    records,
    windowed,
)
from tests.unit.logstate.plans import plan_of

#: what a store's entry had before there were fingerprints
OF_OLD = ("kind", "changelog_topic", "partitions", "sub_topology", "source_topics")
OF_OLD = (*OF_OLD, "key", "value", "window_size_ms", "retention_ms", "history_ms")


def manifest_of(*declares: Any, partitions: int = 1) -> dict[str, Any]:
    return manifest(plan_of(both(*declares), **{"in": partitions, "other": partitions}))


def of_old(found: dict[str, Any]) -> dict[str, Any]:
    """As an earlier logstate wrote it."""
    stores = {
        name: {part: entry[part] for part in OF_OLD} for name, entry in found["stores"].items()
    }
    return {"version": 1, "application_id": "app", "describe": "", "stores": stores}


def test_a_manifest_of_old_is_compared_as_far_as_it_goes() -> None:
    stored = of_old(manifest_of(windowed(10)))
    assert manifest_changes(stored, manifest_of(windowed(10))) == []
    (change,) = manifest_changes(stored, manifest_of(windowed(60)))[:1]
    assert (change.verdict, change.part) == (Verdict.REFUSED, "window_size_ms")


def test_the_number_of_partitions_is_part_of_what_is_stored() -> None:
    stored = manifest_of(by_value("counts", "by-value"), partitions=2)
    found = manifest_changes(stored, manifest_of(by_value("counts", "by-value"), partitions=3))
    assert [(c.subject, c.part, c.stored, c.declared) for c in found] == [
        ("store 'counts'", "partitions", 2, 3),
        ("topic 'app-by-value-repartition'", "partitions", 2, 3),
    ]
    assert worst(found) is Verdict.REFUSED


def test_a_store_is_not_renamed_onto_one_that_is_stored() -> None:
    stored = manifest_of(counted("one"), counted("two", "other"))
    decided = MigrationOptions(renamed={"one": "two"})
    change, *_ = manifest_changes(stored, manifest_of(counted("two", "other")), decided)
    assert change.verdict is Verdict.REFUSED
    assert "Two stores cannot become one" in change.meaning


def test_a_store_without_a_changelog_is_not_renamed() -> None:
    stored = manifest_of(counted("one", logged=False))
    decided = MigrationOptions(renamed={"one": "two"})
    (change,) = manifest_changes(stored, manifest_of(counted("two", logged=False)), decided)
    assert "its rows are local only" in change.meaning


def test_a_renamed_store_must_fit_as_any_other() -> None:
    decided = MigrationOptions(renamed={"one": "two"})
    stored, declared = manifest_of(counted("one")), manifest_of(windowed(name="two"))
    found = manifest_changes(stored, declared, decided)
    assert worst(found) is Verdict.REFUSED
    assert "kind" in [change.part for change in found]


def test_decisions_about_nothing_that_is_stored_do_nothing() -> None:
    stored = manifest_of(counted())
    decided = MigrationOptions(renamed={"never": "counts", "counts": "never"}, forget={"nothing"})
    assert manifest_changes(stored, stored, decided) == []
    assert renames(stored, stored, decided) == {}


def test_a_store_without_a_changelog_does_not_follow_its_tasks_to_other_numbers() -> None:
    stored = manifest_of(counted("local", logged=False))
    declared = manifest_of(counted("late", "other"), counted("local", logged=False))
    found = [c for c in manifest_changes(stored, declared) if c.verdict is Verdict.REFUSED]
    assert [(c.subject, c.part) for c in found] == [("store 'local'", "sub_topology")]


def test_exchanged_inputs_are_not_known_to_a_manifest_of_old() -> None:
    stored = of_old(manifest_of(counted_beside("in", "other")))
    assert manifest_changes(stored, manifest_of(counted_beside("other", "in"))) == []


def test_a_further_input_of_a_group_is_no_exchange() -> None:
    def with_more(builder: Any) -> None:
        both = records(builder).merge(records(builder, "other"))
        both.group_by_key().count(store="counts")

    assert manifest_changes(manifest_of(counted()), manifest_of(with_more)) == []


def test_processors_that_share_a_store_may_be_declared_in_any_order() -> None:
    class Counting(Processor[str, str, str, str]):
        def process(self, record: Any) -> None: ...

    def declared(*topics: str) -> Any:
        def declare(builder: Any) -> None:
            builder.add_store(key_value_store("shared", key=str, value=int))
            for topic in topics:
                records(builder, topic).process(Counting, stores="shared")

        return declare

    stored, other = manifest_of(declared("in", "other")), manifest_of(declared("other", "in"))
    assert stored["stores"]["shared"]["fed_by"] == [["in", "other"]]
    assert manifest_changes(stored, other) == []


class World:
    """An application that is started anew with other stores, on topics that stay."""

    def __init__(self) -> None:
        self.cluster = FakeCluster({"in": 1})
        self.stored: dict[str, Any] | None = None

    def start(self, *stores: str, **decisions: Any) -> None:
        admin = self.cluster.admin()
        declared = both(*(counted(name) for name in stores))
        builder = StreamsBuilder()
        declared(builder)
        plan = run_steps(check_topics_of_others(admin, builder.build(), "app"))
        decided = MigrationOptions(**decisions)
        asked = prepare(
            admin,
            plan,
            replication_factor=1,
            overrides={},
            stored=self.stored,
            decisions=decided,
        )
        self.stored = manifest(run_steps(asked))

    def refusal(self, *stores: str) -> str:
        with pytest.raises(UpgradeError) as caught:
            self.start(*stores)
        return str(caught.value)


def a_store_given_up_under_another_name() -> World:
    world = World()
    world.start("one")
    world.start("two", renamed={"one": "two"})
    world.start("three", forget={"two"})
    return world


def test_a_store_does_not_take_the_rows_of_one_that_was_renamed_and_given_up() -> None:
    world = a_store_given_up_under_another_name()
    error = world.refusal("three", "one")
    assert "Its changelog 'app-one-changelog' has the rows of a store that was forgotten" in error


def test_a_store_does_not_take_the_rows_that_a_move_to_other_partitions_left() -> None:
    world = World()
    world.start("one")
    assert world.stored is not None
    entry = {"kind": "before it was moved", "changelog_topic": "app-old-changelog"}
    world.cluster.create_topic("app-old-changelog", 1, {"cleanup.policy": "compact"})
    world.stored["forgotten"] = {"app-old-changelog": {**entry, "moved_away": True}}
    assert "has the rows of a store that was forgotten" in world.refusal("one", "old")


def test_a_store_takes_the_name_of_one_whose_changelog_was_deleted() -> None:
    world = a_store_given_up_under_another_name()
    world.cluster.admin().delete_topics(["app-one-changelog"])
    world.start("three", "one")


def test_what_was_given_up_is_known_when_another_store_has_its_name() -> None:
    world = a_store_given_up_under_another_name()
    world.start("three", "two")
    assert "'app-one-changelog'" in world.refusal("three", "two", "one")


def test_a_store_is_not_called_as_one_that_kafka_streams_left() -> None:
    world = World()
    world.start("one")
    assert world.stored is not None
    world.cluster.create_topic("app-eu-changelog", 1, {"cleanup.policy": "compact"})
    entry = {"kind": "store of Kafka Streams", "changelog_topic": "app-eu-changelog"}
    world.stored["forgotten"] = {"eu": entry}
    error = world.refusal("one", "eu")
    assert "it may be that of an application whose id begins like this one" in error
    assert "Delete" not in error
