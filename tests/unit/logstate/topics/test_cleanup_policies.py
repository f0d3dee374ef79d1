"""Which settings of topics that exist are refused, and which are a doubt."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest

from logstate.contracts.clients import run_steps
from logstate.contracts.compatibility import NOTHING_DECIDED, Verdict
from logstate.contracts.errors import TopicError
from logstate.testing import FakeCluster
from logstate.topics.bound_plan import bind
from logstate.topics.cleanup_policies import cleanup_of_changelogs
from logstate.topics.internal_topics import check_topics_of_others, prepare
from logstate.topics.preview import preview
from logstate.topics.required_topics import topics_ahead
from logstate.topology import Materialized, StreamsBuilder, TumblingWindows
from tests.unit.logstate.plans import by_word, described, plan_of
from tests.unit.logstate.task.task_bench import topology_of


def windowed(builder: StreamsBuilder) -> None:
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    window = TumblingWindows(size=timedelta(seconds=1))
    grouped.windowed_by(window).count(store="per-second")


def prepared(cluster: FakeCluster, declare: Callable[[StreamsBuilder], object]) -> None:
    admin = cluster.admin()
    plan = run_steps(check_topics_of_others(admin, topology_of(declare), "app"))
    run_steps(prepare(admin, plan, replication_factor=-1, overrides={}))


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
    ids=lambda given: given.__name__ if callable(given) else str(given),
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
