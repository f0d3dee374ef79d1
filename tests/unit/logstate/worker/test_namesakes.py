"""Applications and stores whose topics have one name, or nearly: the error names both."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from logstate.contracts.errors import RestoreError, TopicError
from logstate.testing.fake.group_offsets import GroupOffsets
from logstate.topology import StreamsBuilder
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, send


def counted(*stores: str) -> Callable[[StreamsBuilder], object]:
    def declare(builder: StreamsBuilder) -> None:
        grouped = builder.stream("in", key=str, value=str).group_by_key()
        for store in stores:
            grouped.count(store=store)

    return declare


@pytest.mark.parametrize(("one", "other"), [("my.app", "my_app"), ("a_b.c", "a.b_c")])
def test_names_that_differ_in_dot_and_underscore_only(one: str, other: str) -> None:
    cluster = cluster_of()
    WorkerRig(cluster, counted("n"), application_id=one).start().stop()
    with pytest.raises(TopicError, match=r"give this application another application_id") as raised:
        WorkerRig(cluster, counted("n"), application_id=other).start()
    assert f"topic '{other}-cuts' cannot be made: there is '{one}-cuts'" in str(raised.value)


def test_a_store_whose_name_differs_so_from_one_that_is_there() -> None:
    cluster = cluster_of()
    WorkerRig(cluster, counted("a.b")).start().stop()
    with pytest.raises(TopicError, match=r"'app-a_b-changelog' cannot be made: there is 'app-a\.b"):
        WorkerRig(cluster, counted("a.b", "a_b")).start()


@pytest.mark.parametrize(
    ("ours", "store", "theirs", "their_store"),
    [("shop-eu", "n", "shop", "eu-n"), ("shop", "eu-n", "shop-eu", "n")],
)
def test_the_same_changelog_of_two_applications(
    ours: str, store: str, theirs: str, their_store: str
) -> None:
    cluster = cluster_of()
    rig = WorkerRig(cluster, counted(their_store), application_id=theirs).start()
    send(cluster, "a", "b")
    rig.until_running().commit()
    rig.stop()
    with pytest.raises(RestoreError) as raised:
        WorkerRig(cluster, counted(store), application_id=ours).start().until_running()
    said = str(raised.value)
    assert (
        f"Changelog 'shop-eu-n-changelog' may belong to another application: application '{theirs}'"
        in said
    )
    assert f"has the same topic for a store '{their_store}'" in said
    assert f"`logstate reset` would delete the state of '{theirs}'" in said


def test_an_application_alone_hears_of_no_other() -> None:
    cluster = cluster_of()
    rig = WorkerRig(cluster, counted("eu-n"), application_id="shop-eu").start()
    send(cluster, "a", "b")
    rig.until_running().commit()
    rig.stop()
    cluster.group("shop-eu").offsets = GroupOffsets()
    with pytest.raises(RestoreError) as raised:
        WorkerRig(cluster, counted("eu-n"), application_id="shop-eu").start().until_running()
    assert "another's" not in str(raised.value)
