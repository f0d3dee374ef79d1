"""Copies of tasks' state, as instances of an application show them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from logstate import Application, StandbySettings
from logstate.app.local_worker import LocalWorker
from logstate.contracts.errors import ConfigError, LogstateError, StoreUnavailableError
from logstate.contracts.serving import Serving
from logstate.restore.standby_assignor import GroupView
from tests.unhurried import no_silence  # noqa: F401  for this module
from tests.unit.logstate.instances import KEYS, cluster_with, instance, until


def has_copied(app: Application, other: Application) -> Callable[[], bool]:
    """Whether all that is the other's is here as well, to the last record."""
    return lambda: bool(other.tasks()) and app.standbys() == dict.fromkeys(other.tasks(), 0)


def has_hosts(app: Application, key: str) -> Callable[[], bool]:
    """Whether a copy of a key is known; its task may be on its way yet."""

    def is_told() -> bool:
        try:
            return bool(app.metadata_for_key("counts", key).standby_hosts)
        except StoreUnavailableError:
            return False

    return is_told


def test_each_of_two_instances_copies_what_the_other_has(tmp_path: Path) -> None:
    cluster = cluster_with()
    first = instance(
        cluster, tmp_path / "a", serve=Serving(advertised="http://a:1"), standby_replicas=1
    )
    second = instance(
        cluster, tmp_path / "b", serve=Serving(advertised="http://b:1"), standby_replicas=1
    )
    with first:
        first.wait_until_running()
        until(first, lambda: first.standbys() == {})  # nobody is there to copy for
        with second:
            until(first, has_copied(first, second))
            until(second, has_copied(second, first))
            for key in KEYS:
                until(first, has_hosts(first, key))
                found = first.metadata_for_key("counts", key)
                assert {found.active_host, *found.standby_hosts} == {"http://a:1", "http://b:1"}
        until(first, lambda: first.standbys() == {})


@pytest.mark.parametrize("for_good", [False, True])
def test_others_count_on_a_static_member_until_it_leaves_for_good(
    tmp_path: Path, for_good: bool
) -> None:
    cluster = cluster_with()
    here, there = (
        instance(cluster, tmp_path / name, standby_replicas=1, static_membership=True)
        for name in "ab"
    )
    members: list[set[str]] = []

    def both_told() -> bool:
        members.append({peer.id for peer in neighbours_of(here).peers})
        return len(members[-1]) == 2

    with here:
        with there:
            until(here, has_copied(here, there))
            until(here, both_told)
            (gone,) = there._workers.transactional_ids
            there.close(leave_group=for_good)
        until(here, lambda: gone not in neighbours_of(here).present)
        members_after = {peer.id for peer in neighbours_of(here).peers}
    assert len(members_after) == (1 if for_good else 2)
    assert members_after <= members[-1]


def neighbours_of(app: Application) -> GroupView:
    """What the directory told the worker last."""
    assert isinstance(app._workers, LocalWorker)
    return app._workers._control.group_view


def test_without_an_address_instances_copy_for_each_other_and_answer_nobody(
    tmp_path: Path,
) -> None:
    cluster = cluster_with()
    with instance(cluster, tmp_path / "a", standby_replicas=StandbySettings()) as app:
        app.wait_until_running()
        until(app, lambda: len(app.all_instances()) == 1)
        with pytest.raises(LogstateError, match="give Application\\(serve="):
            app.asgi()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (-1, "standby_replicas must be a number of instances, 0 or more; got -1"),
        (True, "standby_replicas must be a number"),
        (StandbySettings(bytes_per_s=0), "bytes_per_s of standbys must be a positive number"),
        (StandbySettings(acceptable_lag=-1), "acceptable_lag must be a number of records"),
    ],
)
def test_what_is_refused(given: int | StandbySettings, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        instance(cluster_with(), tmp_path, standby_replicas=given)
