"""What is told before a deployment is what the start says."""

from __future__ import annotations

import pytest

from logstate.contracts.clients import run_steps
from logstate.contracts.compatibility import NOTHING_DECIDED, Verdict
from logstate.contracts.errors import LogstateError
from logstate.testing import FakeCluster
from logstate.topics.internal_topics import check_topics_of_others, prepare
from logstate.topics.manifest import manifest
from logstate.topics.manifest_changes import Manifest
from logstate.topics.preview import Preview, preview
from logstate.topology import StreamsBuilder, Topology

COMPACT = {"cleanup.policy": "compact"}


def counting() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).group_by_key().count(store="counts")
    return builder.build()


def seen(cluster: FakeCluster, stored: Manifest | None = None) -> Preview:
    return run_steps(preview(cluster.admin(), counting(), "app", stored, NOTHING_DECIDED))


def started(cluster: FakeCluster, stored: Manifest | None = None) -> Manifest:
    admin = cluster.admin()
    plan = run_steps(check_topics_of_others(admin, counting(), "app"))
    asked = prepare(admin, plan, replication_factor=1, overrides={}, stored=stored)
    return manifest(run_steps(asked))


def check_that_both_refuse(cluster: FakeCluster, stored: Manifest | None = None) -> None:
    found = seen(cluster, stored)
    assert found.verdict is Verdict.REFUSED
    with pytest.raises(LogstateError) as caught:
        started(cluster, stored)
    assert str(caught.value) == "; ".join(found.problems)


def test_tables_that_faust_left_are_told() -> None:
    cluster = FakeCluster({"in": 1, "app-__assignor-__leader": 1})
    check_that_both_refuse(cluster)
    assert "was run by Faust" in seen(cluster).problems[0]


def test_a_changelog_with_other_partitions_is_told() -> None:
    cluster = FakeCluster({"in": 2})
    cluster.create_topic("app-counts-changelog", 5, COMPACT)
    check_that_both_refuse(cluster)


def test_a_changelog_that_is_not_compacted_is_told() -> None:
    cluster = FakeCluster({"in": 1})
    cluster.create_topic("app-counts-changelog", 1, {"cleanup.policy": "delete"})
    check_that_both_refuse(cluster)


def test_a_changelog_that_was_made_anew_is_told_where_all_else_is_the_same() -> None:
    cluster = FakeCluster({"in": 1})
    stored = started(cluster)
    assert seen(cluster, stored).verdict is Verdict.SAME
    cluster.topic("app-counts-changelog").config["cleanup.policy"] = "delete"
    check_that_both_refuse(cluster, stored)


def test_an_application_whose_topics_are_not_there_yet_is_new() -> None:
    assert seen(FakeCluster({"in": 1})) == Preview(is_new=True, changes=())
