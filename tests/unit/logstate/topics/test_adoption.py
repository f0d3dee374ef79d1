"""The first start of ours where Kafka Streams ran the application so far."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import Any

import pytest

from logstate.contracts.clients import Committed, run_steps
from logstate.contracts.clock import ManualClock
from logstate.contracts.compatibility import NOTHING_DECIDED, MigrationOptions
from logstate.contracts.errors import UpgradeError
from logstate.contracts.records import TopicPartition
from logstate.testing import FakeCluster
from logstate.topics.bound_plan import BoundPlan
from logstate.topics.internal_topics import check_topics_of_others, prepare
from logstate.topics.preview import preview
from logstate.topology import Materialized, StreamsBuilder, Topology

INPUT = TopicPartition("in", 0)
OF_THE_JVM = base64.b64encode(struct.pack(">bq", 2, 5)).decode()


def jvm_cluster(*internal: str, metadata: str = OF_THE_JVM) -> FakeCluster:
    """What Kafka Streams leaves behind: offsets with its times, and internal topics."""
    cluster = FakeCluster({"in": 1, "out": 1}, clock=ManualClock(0))
    for name in internal:
        config = {"cleanup.policy": "delete", "retention.ms": "-1"}
        if name == "cuts" or name.endswith("-changelog"):
            config = {"cleanup.policy": "compact"}
        cluster.create_topic(f"app-{name}", 1, config)
    cluster.group("app").offsets.committed[INPUT] = Committed(3, metadata)
    return cluster


def counting(store: str | Materialized) -> Callable[[StreamsBuilder], object]:
    return lambda builder: (
        builder.stream("in", key=str, value=str).group_by_key().count(store=store)
    )


def repartitioned(builder: StreamsBuilder) -> None:
    words = builder.stream("in", key=str, value=str)
    words.group_by(lambda word: word, key=str, name="by-word").count(store="counts")


def a_table(builder: StreamsBuilder) -> None:
    builder.table("in", key=str, value=str, store="rows").to_stream().to("out", key=str, value=str)


def topology(declare: Callable[[StreamsBuilder], object], optimization: str = "none") -> Topology:
    builder = StreamsBuilder()
    declare(builder)
    return builder.build(optimization)


def started(
    cluster: FakeCluster, found: Topology, decisions: MigrationOptions = NOTHING_DECIDED
) -> BoundPlan:
    admin = cluster.admin()
    plan = run_steps(check_topics_of_others(admin, found, "app"))
    return run_steps(prepare(admin, plan, replication_factor=-1, overrides={}, decisions=decisions))


def refusal(cluster: FakeCluster, found: Topology, **decisions: Any) -> str:
    before = set(cluster.topics)
    with pytest.raises(UpgradeError) as caught:
        started(cluster, found, MigrationOptions(**decisions))
    assert set(cluster.topics) == before
    return str(caught.value)


def test_an_application_whose_stores_have_the_same_names_goes_on() -> None:
    plan = started(jvm_cluster("counts-changelog"), topology(counting("counts")))
    assert plan.changelog_topics == {"counts": "app-counts-changelog"}


def test_a_store_under_another_name_would_count_from_nothing_and_needs_a_decision() -> None:
    error = refusal(jvm_cluster("tallies-changelog"), topology(counting("counts")))
    assert "store 'counts': store: stored nothing, declared timestamped_key_value" in error
    assert "('tallies'), say renamed=" in error
    assert "store 'tallies': changelog: stored written, declared nothing" in error


def test_a_renamed_store_goes_on_with_the_changelog_that_the_jvm_wrote() -> None:
    renamed = MigrationOptions(renamed={"tallies": "counts"})
    plan = started(jvm_cluster("tallies-changelog"), topology(counting("counts")), renamed)
    assert plan.changelog_topics == {"counts": "app-tallies-changelog"}


def test_a_store_that_is_not_wanted_any_more_is_forgotten_by_name_only() -> None:
    cluster = jvm_cluster("counts-changelog", "old-changelog")
    assert "say forget={'old'}" in refusal(cluster, topology(counting("counts")))
    plan = started(cluster, topology(counting("counts")), MigrationOptions(forget={"old"}))
    assert plan.forgotten["old"]["changelog_topic"] == "app-old-changelog"


def test_a_store_that_is_added_with_the_takeover_is_refused() -> None:
    def both(builder: StreamsBuilder) -> None:
        grouped = builder.stream("in", key=str, value=str).group_by_key()
        grouped.count(store="counts")
        grouped.count(store="more")

    error = refusal(jvm_cluster("counts-changelog"), topology(both))
    assert "There is no 'app-more-changelog'" in error
    assert "add others with a later version" in error
    assert "withLoggingDisabled" in error


def test_a_store_that_the_jvm_does_not_log_is_declared_so() -> None:
    def both(builder: StreamsBuilder) -> None:
        grouped = builder.stream("in", key=str, value=str).group_by_key()
        grouped.count(store="counts")
        grouped.count(store=Materialized("more", logged=False))

    plan = started(jvm_cluster("counts-changelog"), topology(both))
    assert plan.changelog_topics == {"counts": "app-counts-changelog", "more": None}


def test_a_store_that_only_the_jvm_logs_is_not_begun_with_nothing() -> None:
    cluster = jvm_cluster("counts-changelog")
    error = refusal(cluster, topology(counting(Materialized("counts", logged=False))))
    assert "declare the store without logged=False" in error
    assert "source topic" not in error

    renamed = topology(counting(Materialized("tallies", logged=False)))
    plan = started(cluster, renamed, MigrationOptions(forget={"counts"}))
    assert plan.changelog_topics == {"tallies": None}


def test_a_table_that_the_jvm_keeps_in_its_source_topic_needs_the_same_optimisation() -> None:
    def declare(builder: StreamsBuilder) -> None:
        table = builder.table("in", key=str, value=str, store="rows")
        table.group_by(lambda key, _: (key, 1), name="again", key=str, value=int).count(
            store="counts"
        )

    cluster = jvm_cluster("counts-changelog", "again-repartition")
    error = refusal(cluster, topology(declare))
    assert "store 'rows'" in error
    assert "topology.optimization=all" in error
    plan = started(cluster, topology(declare, "all"))
    assert plan.changelog_topics["rows"] == "in"


def test_a_table_that_the_jvm_logged_is_not_read_from_its_source_topic() -> None:
    error = refusal(jvm_cluster("rows-changelog"), topology(a_table, "all"))
    assert "store 'rows': changelog: stored written, declared in 'in'" in error


@pytest.mark.parametrize(
    "name", ["by-letter-repartition", "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000004-topic"]
)
def test_what_waits_in_a_repartition_topic_of_another_name_is_not_left_there(name: str) -> None:
    cluster = jvm_cluster("counts-changelog", "by-word-repartition", name)
    assert f"topic 'app-{name}': topic" in refusal(cluster, topology(repartitioned))
    started(cluster, topology(repartitioned), MigrationOptions(forget={f"app-{name}"}))


def test_offsets_of_a_plain_consumer_are_no_state() -> None:
    cluster = jvm_cluster("b-counts-changelog", metadata="a note of somebody")
    plan = started(cluster, topology(counting("counts")))
    assert plan.changelog_topics == {"counts": "app-counts-changelog"}


def test_a_start_that_was_interrupted_while_topics_were_made_is_not_taken_for_a_takeover() -> None:
    cluster = jvm_cluster("cuts")
    started(cluster, topology(counting("counts")))


def test_the_plan_command_says_what_the_start_would_say() -> None:
    def seen(cluster: FakeCluster, decisions: MigrationOptions = NOTHING_DECIDED) -> Any:
        found = topology(counting("counts"))
        return run_steps(preview(cluster.admin(), found, "app", None, decisions))

    assert seen(jvm_cluster()).is_new
    cluster = jvm_cluster("tallies-changelog")
    assert str(seen(cluster).verdict) == "decision"
    assert str(seen(cluster, MigrationOptions(renamed={"tallies": "counts"})).verdict) == "same"
