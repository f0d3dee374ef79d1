"""What the JVM has to call the stores of an application that it is given back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from logstate.admin.handover import JvmStore, check_group_is_empty, stores_for_the_jvm
from logstate.contracts.clients import run_steps
from logstate.contracts.errors import MembersLiveError
from logstate.testing import FakeCluster
from logstate.topics.manifest import manifest
from logstate.topology import Materialized, StreamsBuilder
from tests.unit.logstate.plans import plan_of


def tables(builder: StreamsBuilder) -> None:
    counts = builder.stream("in", key=str, value=str).group_by_key()
    counts.count(store="renamed")
    counts.count(store=Materialized("local", logged=False))


def test_a_renamed_store_has_its_first_name_and_one_without_a_changelog_is_not_found() -> None:
    plan = replace(plan_of(tables, **{"in": 1}), logged_as={"renamed": "first"})
    local, renamed = stores_for_the_jvm(manifest(plan))
    assert renamed == JvmStore("renamed", "first", "timestamped_key_value", "")
    assert local.name_on_the_jvm is None
    assert "not logged" in local.remark


def test_a_live_member_is_found_without_touching_an_input() -> None:
    cluster = FakeCluster({"in": 1})
    admin = cluster.admin()
    consumer = cluster.group_consumer(group_id="app", instance_id=None)
    consumer.subscribe(["in"], lambda _: None)
    consumer.poll(1, 0.0)
    with pytest.raises(MembersLiveError):
        run_steps(check_group_is_empty(admin, "app"))
    consumer.close()
    run_steps(check_group_is_empty(admin, "app"))
    assert [tp.topic for tp in cluster.group("app").offsets.committed] == ["app-cuts"]
