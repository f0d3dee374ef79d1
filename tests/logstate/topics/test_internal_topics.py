"""Topics the application makes for itself: names, configurations, and what does not fit."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from logstate import serdes
from logstate.contracts.compatibility import NOTHING_DECIDED, Verdict
from logstate.contracts.errors import TopicError
from logstate.contracts.seams import NewTopic, TopicDescription, run_steps
from logstate.contracts.stores import StoreKind, StoreSpec
from logstate.testing import FakeCluster
from logstate.topics.bound_plan import bind
from logstate.topics.cleanup_policies import changelog_config, cleanup_of_changelogs
from logstate.topics.internal_topics import (
    check_topics_of_others,
    mismatches,
    prepare,
    repartition_config,
    required_topics,
)
from logstate.topics.preview import preview
from logstate.topics.topics_ahead import topics_ahead
from logstate.topology import Materialized, StreamsBuilder, TumblingWindows
from tests.logstate.plans import by_word, described, plan_of
from tests.logstate.task.task_bench import topology_of

DAY_MS = 86_400_000


def config_of(kind: StoreKind, **options: Any) -> dict[str, str]:
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
def test_a_changelog_is_compacted(kind: StoreKind) -> None:
    assert config_of(kind) == {
        "cleanup.policy": "compact",
        "message.timestamp.type": "CreateTime",
    }


@pytest.mark.parametrize("kind", ["window", "timestamped_window", "session"])
def test_the_broker_never_deletes_from_windowed_changelogs_by_time_but_lets_us(
    kind: StoreKind,
) -> None:
    config = config_of(kind, retention_ms=1_000)
    assert set(config["cleanup.policy"].split(",")) == {"compact", "delete"}
    assert config["retention.ms"] == "-1"


def test_versions_are_not_compacted_away_before_their_history_ends() -> None:
    config = config_of("versioned", history_ms=60_000)
    assert config["min.compaction.lag.ms"] == str(60_000 + DAY_MS)
    assert config["segment.ms"] == str(2**63 - 1)  # else old event times end it at each marker
    assert config["cleanup.policy"] == "compact"


def test_versions_in_a_changelog_that_ends_segments_by_time_are_a_doubt() -> None:
    def versioned(builder: StreamsBuilder) -> None:
        history = Materialized("prices", history=timedelta(minutes=1))
        builder.table("in", key=str, value=str, store=history)

    def said(segment_ms: int) -> list[str]:
        configs = {"app-prices-changelog": {"segment.ms": str(segment_ms)}}
        return cleanup_of_changelogs(plan_of(versioned, **{"in": 3}), configs)[1]

    assert said(2**63 - 1) == []
    (doubt,) = said(604_800_000)
    assert "'app-prices-changelog' has segment.ms=604800000" in doubt
    assert "Set segment.ms=9223372036854775807" in doubt


def test_the_configuration_of_a_store_wins() -> None:
    config = config_of("key_value", changelog_config={"segment.ms": "5"})
    assert config["segment.ms"] == "5"
    config = config_of("window", changelog_config={"cleanup.policy": "delete"})
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


@pytest.mark.parametrize(
    ("policy", "retention_ms", "problems_", "doubts_"),
    [
        ("compact,delete", -1, 0, 0),
        ("delete", 3_600_000, 0, 1),
        ("compact,delete", 90_000_000, 0, 1),
        ("compact,delete", 999, 1, 0),
    ],
)
def test_brokers_that_delete_windows_by_time_are_a_doubt_or_a_problem_where_it_is_too_soon(
    policy: str, retention_ms: int, problems_: int, doubts_: int
) -> None:
    config = {"cleanup.policy": policy, "retention.ms": str(retention_ms)}
    found = cleanup_of_changelogs(
        plan_of(windowed, **{"in": 3}), {"app-per-second-changelog": config}
    )
    assert tuple(map(len, found)) == (problems_, doubts_)
    for said in (*found[0], *found[1]):
        assert f"'app-per-second-changelog' has retention.ms={retention_ms}" in said
        assert "Set retention.ms=-1" in said


def test_a_windowed_changelog_that_is_only_compacted_is_a_doubt() -> None:
    configs = {"app-per-second-changelog": {"cleanup.policy": "compact", "retention.ms": "5"}}
    problems_, (doubt,) = cleanup_of_changelogs(plan_of(windowed, **{"in": 3}), configs)
    assert problems_ == []
    assert "'app-per-second-changelog' has cleanup.policy='compact': brokers refuse" in doubt


def test_brokers_that_delete_windows_by_size_are_a_problem() -> None:
    config = {"cleanup.policy": "compact,delete", "retention.bytes": "1000000"}
    (problem,), doubts_ = cleanup_of_changelogs(
        plan_of(windowed, **{"in": 3}), {"app-per-second-changelog": config}
    )
    assert doubts_ == []
    assert "'app-per-second-changelog' has retention.bytes=1000000" in problem
    assert "Set retention.bytes=-1" in problem


def test_a_topic_whose_brokers_change_timestamps_is_refused() -> None:
    configs = {"app-x": {"message.timestamp.type": "LogAppendTime"}}
    required = [topic("app-x", 3, "compact")]
    (problem,) = mismatches(required, {"app-x": TopicDescription("id", 3)}, configs)
    assert "'app-x' has message.timestamp.type='LogAppendTime'" in problem
    assert "Set message.timestamp.type=CreateTime" in problem


def versioned(builder: StreamsBuilder) -> None:
    history = Materialized("prices", history=timedelta(minutes=1))
    builder.table("in", key=str, value=str, store=history)


def test_versions_that_are_compacted_before_their_history_ends_are_a_problem() -> None:
    def said(lag_ms: int) -> list[str]:
        configs = {"app-prices-changelog": {"min.compaction.lag.ms": str(lag_ms)}}
        return cleanup_of_changelogs(plan_of(versioned, **{"in": 3}), configs)[0]

    assert said(60_000) == []
    (problem,) = said(59_999)
    assert "'app-prices-changelog' has min.compaction.lag.ms=59999" in problem
    assert "--add-config min.compaction.lag.ms=86460000`" in problem


def foreign_keys(builder: StreamsBuilder) -> None:
    left = builder.table("in", key=str, value=str, store="left")
    right = builder.table("right", key=str, value=str, store="right")
    joined = left.join(
        right, lambda a, b: a, foreign_key=lambda value: value, name="fk", value=str, store="fk"
    )
    joined.to_stream().to("out")


REPARTITION_CONFIGS = [
    ({"cleanup.policy": "compact"}, "cleanup.policy='compact'"),
    ({"cleanup.policy": "compact,delete"}, "cleanup.policy='compact,delete'"),
    ({"retention.ms": "604800000"}, "retention.ms=604800000"),
    ({"retention.ms": "0"}, "retention.ms=0"),
    ({"retention.bytes": "1000"}, "retention.bytes=1000"),
    ({"message.timestamp.type": "LogAppendTime"}, "message.timestamp.type='LogAppendTime'"),
]
CHANGELOG_CONFIGS = [
    ({"cleanup.policy": "compact,delete"}, "cleanup.policy='compact,delete'"),
    ({"cleanup.policy": "delete"}, "cleanup.policy='delete'"),
    (
        {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"},
        "message.timestamp.type='LogAppendTime'",
    ),
]
KEPT: dict[str, str] = {"cleanup.policy": "delete", "retention.ms": "-1"}


@pytest.mark.parametrize(
    ("declare", "name", "config", "found"),
    [
        *((by_word, "by-word-repartition", {**KEPT, **c}, f) for c, f in REPARTITION_CONFIGS),
        *((by_word, "counts-changelog", c, f) for c, f in CHANGELOG_CONFIGS),
        *((by_word, "cuts", c, f) for c, f in CHANGELOG_CONFIGS),
        *((versioned, "prices-changelog", c, f) for c, f in CHANGELOG_CONFIGS),
        *((foreign_keys, "left-changelog", c, f) for c, f in CHANGELOG_CONFIGS),
        (
            windowed,
            "per-second-changelog",
            {"cleanup.policy": "compact,delete", "retention.ms": "999"},
            "retention.ms=999",
        ),
        (
            windowed,
            "per-second-changelog",
            {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "1"},
            "retention.bytes=1",
        ),
    ],
    ids=str,
)
def test_topics_that_exist_are_held_to_the_rules_of_declared_settings_everywhere(
    declare: Callable[[StreamsBuilder], object], name: str, config: dict[str, str], found: str
) -> None:
    """A start, `logstate plan` and `logstate topics create` refuse the same, and change nothing."""
    cluster = FakeCluster({"in": 1, "right": 1, "out": 1})
    cluster.create_topic(f"app-{name}", 1, config)
    admin, topology = cluster.admin(), topology_of(declare)
    with pytest.raises(TopicError, match=re.escape(f"'app-{name}' has {found}")):
        prepared(cluster, declare)
    assert set(cluster.topics) == {"in", "right", "out", f"app-{name}"}
    seen = run_steps(preview(admin, topology, "app", None, NOTHING_DECIDED))
    assert any(found in problem for problem in seen.problems)
    assert seen.verdict is Verdict.REFUSED
    ahead = run_steps(
        topics_ahead(admin, topology, "app", None, replication_factor=-1, overrides={})
    )
    assert ahead.is_refused
    said = [*ahead.problems, *(one.problem for one in ahead.topics)]
    assert any(found in problem for problem in said)


def test_topics_of_a_foreign_key_join_are_held_to_them_as_well() -> None:
    cluster = FakeCluster({"in": 1, "right": 1, "out": 1})
    prepared(cluster, foreign_keys)
    internal = [name for name in cluster.topics if name.startswith("app-fk")]
    between = [name for name in internal if not name.endswith("-changelog")]
    assert between
    for name in between:
        cluster.topics[name].config["retention.ms"] = "604800000"
    with pytest.raises(TopicError) as caught:
        prepared(cluster, foreign_keys)
    assert all(f"{name!r} has retention.ms=604800000" in str(caught.value) for name in between)


def test_a_source_topic_whose_retention_deletes_rows_is_a_doubt() -> None:
    def reused(builder: StreamsBuilder) -> None:
        builder.table("in", key=str, value=str, store="rows")

    topology = topology_of(reused, optimization="all")
    plan = bind(topology, "app", described(**{"in": 1}))
    for policy, doubts_ in (("compact", 0), ("compact,delete", 1), ("delete", 1)):
        found = cleanup_of_changelogs(plan, {"in": {"cleanup.policy": policy}})
        assert tuple(map(len, found)) == (0, doubts_)


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
    with pytest.raises(TopicError, match=r"output topic 'out': there is no such topic"):
        prepared(cluster)
    assert list(cluster.topics) == ["in"]


def test_so_is_a_dead_letter_topic() -> None:
    with pytest.raises(TopicError, match=r"dead letter topic 'dead': there is no such topic"):
        prepared(FakeCluster({"in": 3, "out": 1}), dead_letter_topic="dead")


@pytest.mark.parametrize(
    "own", ["app-counts-changelog", "app-by-word-repartition", "app-cuts", "app-logstate-snapshots"]
)
def test_our_own_topics_are_nobody_s_output(own: str) -> None:
    """Also where the topic is there already, from a start before."""
    cluster = FakeCluster({"in": 3, "out": 1, own: 3})
    with pytest.raises(
        TopicError, match=f"dead letter topic '{own}'.* makes that topic for itself"
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
    cluster.create_topic("app-moved-repartition", 2, KEPT)
    with pytest.raises(TopicError, match=r"keep its count: repartition\(name=..., partitions=2\)"):
        prepared(cluster, declare(None))
    prepared(cluster, declare(2))


def test_windowed_changelogs_allow_their_owner_to_delete() -> None:
    cluster = FakeCluster({"in": 1})
    prepared(cluster, windowed)
    policy = cluster.topics["app-per-second-changelog"].config["cleanup.policy"]
    assert set(policy.split(",")) == {"compact", "delete"}
