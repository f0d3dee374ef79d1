"""The stores of an Application, as it hands them out for reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from logstate.contracts.clients import Cluster
from logstate.contracts.clock import Clock
from logstate.contracts.errors import StoreUnavailableError
from logstate.contracts.records import TaskId
from logstate.queries.freshness import Freshness
from logstate.queries.queries import GlobalQueryableStore, QueryableStore, unless_ended
from logstate.task.owned_task import OwnedTask
from logstate.topics.placement import placed_by
from logstate.topology.plan.plan import Topology
from logstate.worker.worker import Worker
from logstate.worker.worker_observer import WorkerObserver


@dataclass(frozen=True)
class ReadableStores:
    """``why_ended`` says why nothing can be read any more; None while it can."""

    topology: Topology
    application_id: str
    #: the one of the moment
    worker: Callable[[], Worker]
    observer: WorkerObserver
    cluster: Cluster
    clock: Clock
    why_ended: Callable[[], str | None]

    def named(
        self, name: str, max_age: timedelta | None, *, standbys: bool = False
    ) -> QueryableStore:
        """Raises StoreUnavailableError for a name that the topology does not have."""
        freshness = self.freshness(max_age)
        topology, why = self.topology, self.why_ended
        spec = topology.global_stores.get(name)
        if spec is not None:
            globals_ = topology.global_sub_topologies
            number = next(s.id for s in globals_ if spec in s.stores)
            global_stores = unless_ended(name, why, lambda: self.worker().global_stores)
            return GlobalQueryableStore(spec, self.application_id, number, global_stores, freshness)
        spec = topology.stores.get(name)
        if spec is None:
            known = sorted((*topology.stores, *topology.global_stores))
            raise StoreUnavailableError(f"there is no store {name!r}; the topology has {known}")
        sub_topology = next(s for s in topology.sub_topologies if spec in s.stores)
        return QueryableStore(
            spec,
            self.application_id,
            unless_ended(name, why, self._with_standbys if standbys else self._own),
            sub_topology.id,
            unless_ended(name, why, lambda: self.worker().task_count(sub_topology)),
            self.cluster.partition_for,
            freshness,
            is_placed=placed_by(topology, sub_topology, spec) is not None,
        )

    def _own(self) -> Mapping[TaskId, OwnedTask]:
        return self.observer.tasks

    def _with_standbys(self) -> Mapping[TaskId, OwnedTask]:
        return {**self.worker().followed.queried(), **self.observer.tasks}

    def freshness(self, max_age: timedelta | None) -> Freshness:
        """The ages of what is here."""
        return Freshness(self.clock.monotonic_ms, lambda: self.observer.away_since_ms, max_age)
