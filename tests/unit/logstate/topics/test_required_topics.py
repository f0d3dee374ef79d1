"""The topics that an application will need, compared with what is there."""

from __future__ import annotations

from typing import Any

import pytest

from logstate.contracts.clients import NewTopic, run_steps
from logstate.contracts.compatibility import MigrationOptions, Verdict, worst
from logstate.contracts.errors import TopicError, UpgradeError
from logstate.testing import FakeCluster
from logstate.topics.internal_topics import check_topics_of_others, prepare
from logstate.topics.manifest import manifest
from logstate.topics.manifest_changes import Manifest
from logstate.topics.required_topics import RequiredTopics, topics_ahead
from logstate.topology import StreamsBuilder, Topology


def counting(store: str = "counts") -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("in", key=str, value=str).group_by(str.upper, key=str, name="words")
    words.count(store=store)
    return builder.build()


def ahead(
    cluster: FakeCluster, store: str = "counts", stored: Manifest | None = None, **options: Any
) -> RequiredTopics:
    given: dict[str, Any] = {"replication_factor": 3, "overrides": {}, **options}
    return run_steps(topics_ahead(cluster.admin(), counting(store), "app", stored, **given))


def started(cluster: FakeCluster) -> Manifest:
    """What a start notes."""
    admin = cluster.admin()
    plan = run_steps(check_topics_of_others(admin, counting(), "app"))
    return manifest(run_steps(prepare(admin, plan, replication_factor=1, overrides={})))


def test_what_a_first_start_would_make_is_missing() -> None:
    found = ahead(FakeCluster({"in": 4}), overrides={"min.insync.replicas": "2"})
    told = {one.name: (one.partitions, one.replication_factor) for one in found.missing}
    assert told == {
        "app-cuts": (1, 3),
        "app-words-repartition": (4, 3),
        "app-counts-changelog": (4, 3),
    }
    assert all(one.config["min.insync.replicas"] == "2" for one in found.missing)
    assert not found.is_refused


def test_what_was_made_ahead_is_there_and_as_it_is_needed() -> None:
    cluster = FakeCluster({"in": 4})
    cluster.admin().create_topics(ahead(cluster).missing)
    found = ahead(cluster)
    assert found.missing == []
    assert not any(one.differences or one.problem for one in found.topics)


def test_a_topic_with_other_partitions_would_stop_a_start() -> None:
    cluster = FakeCluster({"in": 4, "app-cuts": 1, "app-counts-changelog": 3})
    found = ahead(cluster)
    wrong = {one.topic.name: one.problem for one in found.topics if one.problem}
    assert "has 3 partitions and needs 4" in wrong["app-counts-changelog"]
    assert found.is_refused


def test_other_settings_of_a_topic_are_told() -> None:
    cluster = FakeCluster({"in": 1})
    first, *others = ahead(cluster).missing
    made = NewTopic(first.name, 1, 1, {**first.config, "message.timestamp.type": "LogAppendTime"})
    cluster.admin().create_topics([made, *others])
    found = {one.topic.name: one.differences for one in ahead(cluster).topics}
    assert found[first.name] == (("message.timestamp.type", "LogAppendTime", "CreateTime"),)


def test_topics_of_others_have_to_be_there() -> None:
    with pytest.raises(TopicError, match="'in'"):
        ahead(FakeCluster({}))


def test_what_is_undecided_of_stored_names_is_asked_as_a_start_asks() -> None:
    cluster = FakeCluster({"in": 1})
    stored = started(cluster)
    with pytest.raises(UpgradeError, match=r"say renamed=\{'counts': 'tallies'\}") as caught:
        ahead(cluster, "tallies", stored)
    assert worst(caught.value.changes) is Verdict.DECISION


def test_what_was_decided_of_stored_names_is_heard() -> None:
    cluster = FakeCluster({"in": 1})
    stored = started(cluster)
    renamed = MigrationOptions(renamed={"counts": "tallies"})
    assert ahead(cluster, "tallies", stored, decisions=renamed).missing == []
    forgotten = ahead(cluster, "tallies", stored, decisions=MigrationOptions(forget={"counts"}))
    assert [one.name for one in forgotten.missing] == ["app-tallies-changelog"]
