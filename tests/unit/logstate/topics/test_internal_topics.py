"""Topics the application makes for itself: names, configurations, and what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from logstate import serdes
from logstate.contracts.clients import NewTopic, TopicDescription, run_steps
from logstate.contracts.errors import TopicError
from logstate.contracts.stores import StoreSpec
from logstate.testing import FakeCluster
from logstate.topics.cleanup_policies import changelog_config
from logstate.topics.internal_topics import (
    check_topics_of_others,
    mismatches,
    prepare,
    repartition_config,
    required_topics,
)
from logstate.topology import Materialized, StreamsBuilder, TumblingWindows
from tests.unit.logstate.plans import by_word, plan_of
from tests.unit.logstate.task.task_bench import topology_of

DAY_MS = 86_400_000


def config_of(kind: str, **options: Any) -> dict[str, str]:
    return changelog_config(StoreSpec("s", kind, serdes.string, serdes.string, **options))


# --- configurations -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        "key_value",
        "timestamped_key_value",
        "suppress_buffer",
        "join_buffer",
        "outer_join",
        "foreign_key_subscription",
    ],
)
def test_a_changelog_is_compacted(kind: str) -> None:
    assert config_of(kind) == {
        "cleanup.policy": "compact",
        "message.timestamp.type": "CreateTime",
    }


@pytest.mark.parametrize("kind", ["window", "timestamped_window", "session"])
def test_the_broker_never_deletes_from_windowed_changelogs_by_time_but_lets_us(
    kind: str,
) -> None:
    config = config_of(kind, retention_ms=1_000)
    assert set(config["cleanup.policy"].split(",")) == {"compact", "delete"}
    assert config["retention.ms"] == "-1"


def test_versions_are_not_compacted_away_before_their_history_ends() -> None:
    config = config_of("versioned", history_ms=60_000)
    assert config["min.compaction.lag.ms"] == str(60_000 + DAY_MS)
    assert config["segment.ms"] == str(2**63 - 1)  # else old event times end it at each marker
    assert config["cleanup.policy"] == "compact"


def test_the_configuration_of_a_store_wins() -> None:
    config = config_of("key_value", changelog_config={"segment.ms": "5"})
    assert config["segment.ms"] == "5"
    config = config_of("window", retention_ms=1_000, changelog_config={"cleanup.policy": "delete"})
    assert config["cleanup.policy"] == "delete"


def test_repartition_topics_keep_everything_until_it_is_purged() -> None:
    config = repartition_config()
    assert config["cleanup.policy"] == "delete"
    assert config["retention.ms"] == "-1"
    assert config["message.timestamp.type"] == "CreateTime"


# --- what must exist ------------------------------------------------------------------------------


def windowed(builder: StreamsBuilder) -> None:
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    window = TumblingWindows(size=timedelta(seconds=1))
    grouped.windowed_by(window).count(store="per-second")


def test_every_internal_topic_is_required_with_its_count() -> None:
    topics = {t.name: t for t in required_topics(plan_of(by_word, **{"in": 3}), 2, {})}
    assert {name: topic.partitions for name, topic in topics.items()} == {
        "app-cuts": 1,
        "app-by-word-repartition": 3,
        "app-counts-changelog": 3,
    }
    assert {topic.replication_factor for topic in topics.values()} == {2}
    assert topics["app-cuts"].config["cleanup.policy"] == "compact"
    assert topics["app-counts-changelog"].config["cleanup.policy"] == "compact"
    assert topics["app-by-word-repartition"].config["cleanup.policy"] == "delete"


def test_the_applications_own_settings_reach_every_internal_topic() -> None:
    topics = required_topics(plan_of(by_word, **{"in": 3}), -1, {"segment.ms": "7"})
    assert [t.config["segment.ms"] for t in topics] == ["7"] * 3


def test_stores_that_are_not_logged_need_no_changelog() -> None:
    def declare(builder: StreamsBuilder) -> None:
        grouped = builder.stream("in", key=str, value=str).group_by_key()
        grouped.count(store=Materialized("counts", logged=False))

    names = [t.name for t in required_topics(plan_of(declare, **{"in": 3}), -1, {})]
    assert names == ["app-cuts"]


# --- what exists already --------------------------------------------------------------------------


def topic(name: str, partitions: int, policy: str) -> NewTopic:
    return NewTopic(name, partitions, -1, {"cleanup.policy": policy})


def problems(required: NewTopic, *, partitions: int, policy: str | None = None) -> list[str]:
    existing = {required.name: TopicDescription("id", partitions)}
    configs = {required.name: {"cleanup.policy": policy}} if policy is not None else {}
    return mismatches([required], existing, configs)


def test_topics_that_fit_or_do_not_exist_are_no_problem() -> None:
    changelog = topic("app-s-changelog", 3, "compact")
    assert problems(changelog, partitions=3, policy="compact") == []
    assert problems(changelog, partitions=3) == []
    assert mismatches([changelog], {}, {}) == []


@pytest.mark.parametrize("policy", ["compact,delete", "delete,compact", "delete, compact", ""])
def test_a_changelog_whose_rows_never_expire_is_only_compacted(policy: str) -> None:
    (problem,) = problems(topic("app-x", 3, "compact"), partitions=3, policy=policy)
    assert f"'app-x' has cleanup.policy={policy!r} and would lose state" in problem
    assert "--entity-name app-x --add-config cleanup.policy=compact`" in problem


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_a_wrong_partition_count_is_a_problem_with_both_counts(policy: str) -> None:
    (problem,) = problems(topic("app-x", 3, policy), partitions=5, policy=policy)
    assert "'app-x' has 5 partitions and needs 3" in problem
    assert "new application_id" in problem


def test_a_changelog_that_is_not_compacted_would_lose_state() -> None:
    (problem,) = problems(topic("app-x", 3, "compact"), partitions=3, policy="delete")
    assert "'app-x' has cleanup.policy='delete' and would lose state" in problem


def test_a_windowed_changelog_need_not_be_compacted_as_those_of_jvm_joins() -> None:
    assert problems(topic("app-x", 3, "compact,delete"), partitions=3, policy="delete") == []


def test_a_topic_whose_brokers_change_timestamps_is_refused() -> None:
    configs = {"app-x": {"message.timestamp.type": "LogAppendTime"}}
    required = [topic("app-x", 3, "compact")]
    (problem,) = mismatches(required, {"app-x": TopicDescription("id", 3)}, configs)
    assert "'app-x' has message.timestamp.type='LogAppendTime'" in problem
    assert "Set message.timestamp.type=CreateTime" in problem


# --- creating -------------------------------------------------------------------------------------


def prepared(
    cluster: FakeCluster,
    declare: Callable[[StreamsBuilder], object] = by_word,
    dead_letter_topic: str | None = None,
) -> Any:
    admin = cluster.admin()
    topology = topology_of(declare)
    plan = run_steps(
        check_topics_of_others(admin, topology, "app", dead_letter_topic=dead_letter_topic)
    )
    return run_steps(prepare(admin, plan, replication_factor=-1, overrides={}))


def test_what_is_missing_is_created_and_all_topic_ids_are_known() -> None:
    cluster = FakeCluster({"in": 3, "out": 7})
    plan = prepared(cluster)
    internal = {"app-cuts", "app-by-word-repartition", "app-counts-changelog"}
    assert set(cluster.topics) == {"in", "out"} | internal
    assert len(cluster.topics["app-counts-changelog"].logs) == 3
    assert plan.topic_ids["in"] == cluster.topics["in"].topic_id
    for name in internal:
        assert plan.topic_ids[name] == cluster.topics[name].topic_id


def test_a_second_start_creates_nothing_and_finds_the_same_plan() -> None:
    cluster = FakeCluster({"in": 3, "out": 7})
    first = prepared(cluster)
    ids = {name: found.topic_id for name, found in cluster.topics.items()}
    second = prepared(cluster)
    assert second.partition_counts == first.partition_counts
    assert second.topic_ids == first.topic_ids
    assert {name: found.topic_id for name, found in cluster.topics.items()} == ids


def test_the_counts_of_output_topics_are_known() -> None:
    assert prepared(FakeCluster({"in": 3, "out": 7})).partition_counts["out"] == 7


def test_an_output_topic_that_is_missing_is_found_at_the_start_and_nothing_is_created() -> None:
    cluster = FakeCluster({"in": 3})
    with pytest.raises(TopicError, match=r"output topic 'out': the topic does not exist"):
        prepared(cluster)
    assert list(cluster.topics) == ["in"]


def test_so_is_a_dead_letter_topic() -> None:
    with pytest.raises(TopicError, match=r"dead letter topic 'dead': the topic does not exist"):
        prepared(FakeCluster({"in": 3, "out": 1}), dead_letter_topic="dead")


@pytest.mark.parametrize(
    "own", ["app-counts-changelog", "app-by-word-repartition", "app-cuts", "app-logstate-snapshots"]
)
def test_our_own_topics_are_nobody_s_output(own: str) -> None:
    """Also where the topic is there already, from a start before."""
    cluster = FakeCluster({"in": 3, "out": 1, own: 3})
    with pytest.raises(
        TopicError, match=f"dead letter topic '{own}'.* creates that topic for its state"
    ):
        prepared(cluster, dead_letter_topic=own)

    def declare(builder: StreamsBuilder) -> None:
        by_word(builder)
        builder.stream("in", key=str, value=str).to(own)

    with pytest.raises(TopicError, match=f"output topic '{own}'.* another name"):
        prepared(cluster, declare)


def test_nothing_is_created_where_a_source_is_missing() -> None:
    cluster = FakeCluster({})
    with pytest.raises(TopicError, match="source topic 'in' does not exist"):
        prepared(cluster)
    assert cluster.topics == {}


def test_nothing_is_created_or_altered_where_something_does_not_fit() -> None:
    cluster = FakeCluster({"in": 3, "out": 1, "app-by-word-repartition": 2})
    cluster.create_topic("app-counts-changelog", 3, {"cleanup.policy": "delete"})
    with pytest.raises(TopicError) as caught:
        prepared(cluster)
    assert "'app-by-word-repartition' has 2 partitions and needs 3" in str(caught.value)
    assert "'app-counts-changelog' has cleanup.policy='delete'" in str(caught.value)
    assert "app-cuts" not in cluster.topics


def test_a_repartition_topic_may_keep_the_count_that_kafka_streams_gave_it() -> None:
    def declare(partitions: int | None) -> Callable[[StreamsBuilder], None]:
        def moved(builder: StreamsBuilder) -> None:
            stream = builder.stream("in", key=str, value=str)
            stream.repartition(name="moved", partitions=partitions).to("out")

        return moved

    cluster = FakeCluster({"in": 3, "out": 1})
    cluster.create_topic("app-moved-repartition", 2, repartition_config())
    with pytest.raises(TopicError, match=r"keep its count: repartition\(name=..., partitions=2\)"):
        prepared(cluster, declare(None))
    prepared(cluster, declare(2))


def test_windowed_changelogs_allow_their_owner_to_delete() -> None:
    cluster = FakeCluster({"in": 1})
    prepared(cluster, windowed)
    policy = cluster.topics["app-per-second-changelog"].config["cleanup.policy"]
    assert set(policy.split(",")) == {"compact", "delete"}
