"""Bugs of the directory, and of who answers by it."""

from __future__ import annotations

from typing import Any

from logstate.directory.directory_link import Claims
from logstate.directory.entries import InstanceEntry
from logstate.directory.known_instances import KnownInstances
from logstate.http.query_handler import QueryHandler
from logstate.queries.reader import Freshness
from tests.campaigns.simulation import directories, instances
from tests.campaigns.simulation.planted.bug import Patch, scenario_bug


@scenario_bug(directories.SlowDirectories.of)
def a_stale_directory_answers_for_a_key_that_was_lost(patch: Patch) -> None:
    """Who is asked answers what it has, without a look at how new that is and who claims it."""

    def fresh(self: Freshness, store: str, owned: Any, max_age_ms: int) -> None: ...
    def mine(self: QueryHandler, store: str, partition: int) -> None: ...

    patch(Freshness, "check", fresh)
    patch(QueryHandler, "_check_owner", mine)


@scenario_bug(directories.Directories.of)
def a_warm_up_is_claimed_as_ownership(patch: Patch) -> None:
    """An instance claims the tasks that it only copies."""
    owned = instances.SimulatedInstance.owned

    def wrong(self: instances.SimulatedInstance) -> Any:
        followed = {
            task_id: one
            for slot in self.slots
            if slot.worker is not None
            for task_id, one in slot.worker.followed.tasks.items()
        }
        return {**followed, **owned(self)}

    patch(instances.SimulatedInstance, "owned", wrong)


@scenario_bug(directories.Directories.of)
def two_that_claim_one_address_race(patch: Patch) -> None:
    """Both see that the other one has claimed it too, and claim anew."""

    def wrong(self: KnownInstances, instance: str, name: str, number: int, now_ms: float) -> bool:
        present = self.present(now_ms)
        return any(e.claims().get(name, 0) >= number for e in present if e.instance != instance)

    patch(KnownInstances, "is_second", wrong)


@scenario_bug(directories.Directories.of)
def an_address_belongs_to_who_claimed_it_first(patch: Patch) -> None:
    """Of two that claim one address the lower claim counts."""

    def wrong(self: KnownInstances, now_ms: float) -> list[InstanceEntry]:
        found = self.present(now_ms)
        lowest: dict[str, int] = {}
        for one in found:
            lowest[one.address] = min(one.claim, lowest.get(one.address, one.claim))
        return [one for one in found if one.claim == lowest[one.address]]

    patch(KnownInstances, "live", wrong)


@scenario_bug(directories.Directories.of)
def every_claim_is_the_first(patch: Patch) -> None:
    """A claim has a number of its own, whatever others claimed before."""
    patch(Claims, "_number", lambda self, name, now_ms: 1)
