"""Observation and queries of a running Application. Thread-safe."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal

from logstate.app.instance.health import Health
from logstate.app.instance.owner_process import OwnerProcess
from logstate.app.instance.states import ApplicationState, Lifecycle, StateListener
from logstate.app.instance.worker_processes import WorkerProcesses
from logstate.app.local_worker import LocalWorker
from logstate.app.presence import Presence, not_asked_for, presence_of
from logstate.app.settings import Settings
from logstate.changelog.cuts.named_cut import NamedCut
from logstate.changelog.cuts.named_cuts import create_cut
from logstate.contracts.errors import ConfigError, LogstateError, check
from logstate.contracts.setting_rules import durations, positions
from logstate.directory.metadata import KeyQueryMetadata, StreamsMetadata
from logstate.http.remote_store import AsyncRemoteStore, RemoteStore
from logstate.metrics.instruments import Metrics
from logstate.queries.queries import QueryableStore
from logstate.topics.placement import BY_HASH
from logstate.topology.declaring.callbacks import signature_problems
from logstate.topology.plan.plan import Topology
from logstate.worker.worker_observer import TaskLag

_LOGGER = logging.getLogger(__name__)


class ApplicationView:
    """State, health, metrics and stores of all workers together."""

    _settings: Settings
    _held: LocalWorker | WorkerProcesses

    @cached_property
    def _owner(self) -> OwnerProcess:
        return OwnerProcess(self._settings.application_id)

    @property
    def _workers(self) -> LocalWorker | WorkerProcesses:
        """The workers; raises LogstateError in a process that was forked from the one that has
        them.
        """
        self._owner.check()
        return self._held

    @_workers.setter
    def _workers(self, workers: LocalWorker | WorkerProcesses) -> None:
        self._owner.check()
        self._held = workers

    @cached_property
    def _lifecycle(self) -> Lifecycle:
        lifecycle = Lifecycle()
        lifecycle.listen(self._log_change)
        return lifecycle

    def _log_change(self, old: ApplicationState, new: ApplicationState) -> None:
        _LOGGER.info("application %s: %s -> %s", self.application_id, old.value, new.value)

    @cached_property
    def _presence(self) -> Presence | None:
        return presence_of(self._settings, self._workers)

    @property
    def topology(self) -> Topology:
        """The topology that it runs."""
        return self._settings.topology

    @property
    def application_id(self) -> str:
        """Its consumer group, and the prefix of its internal names."""
        return self._settings.application_id

    @property
    def bootstrap(self) -> str:
        """Its brokers, as they were given."""
        return self._settings.bootstrap

    @property
    def transactional_ids(self) -> list[str]:
        """Transactional ids of its workers' producers; the same at every start with this
        ``state_dir``.
        """
        return self._workers.transactional_ids

    @property
    def transactional_id(self) -> str:
        """The id of the first worker. Raises LogstateError while no worker process runs."""
        known = self._workers.transactional_ids
        if not known:
            raise LogstateError(
                "no worker process is running, and each has its own transactional.id"
            )
        return known[0]

    @property
    def is_alive(self) -> bool:
        """True until the worker has ended or failed."""
        return not self._workers.is_finished

    @property
    def state(self) -> ApplicationState:
        """The state of this instance."""
        return self._lifecycle.state

    def on_state_change(self, listener: StateListener) -> StateListener:
        """Register ``listener(old, new)`` for every further change of ``state``.

        Called for one change after the other, in the thread that makes it: mostly the worker
        thread, which waits meanwhile, so be quick. Exceptions of the listener are logged and have
        no other effect. Returns the listener, so it can be used as a decorator. Raises ConfigError
        for a listener that cannot be called so, and for coroutine functions, whose call has no
        effect.
        """
        check(signature_problems(listener, "the state listener", "(old, new)", 2))
        self._lifecycle.listen(listener)
        return listener

    def store(
        self,
        name: str,
        *,
        max_age: timedelta | None = None,
        standbys: bool = False,
        placed_by: Literal["murmur2"] | None = None,
    ) -> QueryableStore:
        """Return a store for reading committed local state from any thread; also for global stores.

        It also answers while the brokers are unavailable, with the last committed state; ``age`` of
        the store shows its age. With ``max_age`` a read raises StoreUnavailableError instead of
        returning older state. With ``standbys`` the standbys of other instances' tasks answer too
        (``standby_replicas``): committed rows, mostly from the last seconds; ``age`` shows their
        age, and ``lag`` how many changelog offsets they are behind. The Kafka Streams setting is
        ``enableStaleStores``.

        A read by key that finds nothing also raises StoreUnavailableError if other programs write
        the input and some partitions are not here: the key may be in one of those. If all of them
        place keys as Kafka's own clients do, pass ``placed_by="murmur2"`` to get None instead.
        Raises ConfigError for any other value, and for a ``max_age`` that is not a timedelta.
        """
        if max_age is not None:
            check(durations("store()", max_age=max_age))
        store = self._workers.stores.named(name, max_age, standbys=standbys)
        if placed_by is not None:
            if placed_by != BY_HASH:
                raise ConfigError(
                    f"unknown placed_by={placed_by!r}: use 'murmur2' for the partitioner of Kafka's"
                    " own clients. For another partitioner, pass partition= with each read"
                )
            store.is_placed = True
        return store

    def is_ready(self, *, max_age: timedelta | None = None) -> Health:
        """Report whether local reads of all its tasks are answered, with ``reason``; for readiness
        probes.

        Also true while the brokers are unavailable, unless its data is older than ``max_age``.
        """
        check(durations("is_ready()", max_age=max_age, optional=True))
        return self._workers.readiness(max_age)

    def is_live(self) -> Health:
        """Return False, with ``reason``, when only a restart can help; for liveness probes.

        That is after its end, and if one call of a function takes longer than
        ``max.poll.interval.ms``. Unavailable brokers are not a reason.
        """
        return self._workers.liveness()

    def metrics(self) -> dict[str, Any]:
        """Return a snapshot of all metrics (see logstate.metrics.catalogue), by name.

        Every metric of the catalogue is included: counts are zero until something is counted, and
        ``series`` is empty before the start and for tasks, stores and partitions that this instance
        does not have. See docs/metrics.md.

        >>> from logstate import Application, StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> builder.stream("in", value=str).to("out")
        >>> app = Application(builder.build(), application_id="copy", bootstrap="localhost:9092",
        ...                   state_dir="state")
        >>> app.metrics()["commit_total"]["series"]
        [{'labels': {'worker': '0'}, 'value': 0}]
        """
        return self._workers.metrics.snapshot(with_empty=True)

    @property
    def metrics_registry(self) -> Metrics:
        """The live instruments, for the Prometheus and OpenTelemetry exporters."""
        return self._workers.metrics

    def tasks(self) -> dict[str, str]:
        """Map the ids of this instance's tasks to their stages.

        ``assigned``: the committed offsets are being read. ``restoring``: changelogs are replayed.
        ``starting``: it seeks its inputs. ``running``: it processes records. After an abort a task
        is ``assigned`` again. Without tasks, ``is_spare`` distinguishes an instance that has
        nothing to do from one that has not received an assignment yet.
        """
        return self._workers.tasks()

    def lags(self) -> dict[str, TaskLag]:
        """Map task ids to their lag behind the ends of their inputs, and of their changelogs.

        The ends are those that the brokers returned with the last records: while the application is
        paused, they are not updated.
        """
        return self._workers.lags()

    def standbys(self) -> dict[str, int | None]:
        """Map standbys of other instances' tasks to the number of missing changelog offsets.

        See ``standby_replicas``; None until the ends are known.
        """
        return self._workers.standbys()

    def create_cut(
        self, name: str, *, stores: Collection[str] | None = None, keep: timedelta | None = None
    ) -> NamedCut:
        """Keep the newest cut of all instances under a name, for Spark to read at any later time.

        The rows at the cut of each store, or of the given ``stores``, are copied into topics that
        are not compacted; the cut can be read for the time ``keep``, or until ``logstate cut
        delete``. Blocks the caller while copying; the application continues meanwhile. See
        docs/spark.md.

        Raises ConfigError if there is a cut of this name, another process is creating one now, or a
        store does not exist; TopicError before the first start; RestoreError if a changelog has
        records that no commit covers, or the cut is deleted while it is created; BrokerError.
        """
        settings = self._settings
        kafka = {**settings.clients.common, **settings.clients.admin}
        return create_cut(
            settings.bootstrap, settings.application_id, name, stores=stores, keep=keep, kafka=kafka
        )

    def snapshot(
        self,
        name: str,
        *,
        stores: Collection[str] | None = None,
        keep: timedelta | None = None,
        timeout: timedelta = timedelta(seconds=30),
    ) -> NamedCut:
        """Keep a cut at which the tasks of all instances agree, across repartition topics.

        Of any input record either all its results are in the stores, on both sides of every
        repartition topic, or none. Otherwise like ``create_cut``, and read by name in the same way.
        Attempts that fail because of a rebalance or a crash are repeated until ``timeout``. See
        docs/spark.md.

        Raises the errors of ``create_cut``; SnapshotError if no attempt succeeds in time;
        ConfigError if repartition topics form a cycle, as those of a foreign-key join do.
        """
        settings = self._settings
        kafka = {**settings.clients.common, **settings.clients.admin}
        return create_cut(
            settings.bootstrap,
            settings.application_id,
            name,
            stores=stores,
            keep=keep,
            kafka=kafka,
            across_repartitions=timeout,
        )

    # ------------------------------------------------------------------ other instances

    def all_instances(self) -> list[StreamsMetadata]:
        """Return the instances of the application with recent heartbeats, including this one.

        Only instances with ``serve=`` or ``standby_replicas=``; raises LogstateError if this one
        has neither.
        """
        return self._present("all_instances()").lookup.instances()

    def metadata_for_store(self, store: str) -> list[StreamsMetadata]:
        """Return the instances that have partitions of a store.

        Raises StoreUnavailableError for a store that the topology does not have.
        """
        return self._present("metadata_for_store()").lookup.of_store(store)

    def metadata_for_key(
        self, store: str, key: Any, *, partition: int | None = None
    ) -> KeyQueryMetadata:
        """Return the instance that has a key of a store, whether or not the key exists.

        ``partition`` is only necessary if the topology's input uses a custom partitioner. Raises
        StoreUnavailableError, with the reason, while the owner is unknown, for example during a
        rebalance.
        """
        return self._present("metadata_for_key()").lookup.of_key(store, key, partition)

    def remote_store(
        self,
        name: str,
        *,
        timeout: timedelta = timedelta(seconds=10),
        at_least: Mapping[Any, int] | None = None,
        max_age: timedelta | None = None,
        standbys: bool = False,
    ) -> RemoteStore:
        """Return a store over all instances: each read goes to the owner of the partition.

        Reads are retried during a rebalance, until ``timeout``; then StoreUnavailableError has the
        reason. ``at_least`` are positions, ``{"topic-partition": offset}``, that an answer must
        have reached: the first offsets that it may lack. With ``standbys`` a standby answers if the
        task's owner does not; ``answer(...).lag`` shows its lag, and ``max_age`` limits its age.
        Raises ConfigError for ``standbys`` with ``at_least``, because standbys do not know their
        input positions.
        """
        present = self._present("remote_store()")
        check(
            durations("remote_store()", timeout=timeout),
            durations("remote_store()", max_age=max_age, optional=True),
            positions("at_least of remote_store()", at_least or {}),
        )
        if standbys and at_least:
            raise ConfigError(
                "standbys=True and at_least= exclude each other: a standby does not know which"
                " input records it includes. Leave one of them out"
            )
        return present.remote_store(name, timeout, at_least or {}, max_age, standbys=standbys)

    def async_remote_store(self, name: str, **settings: Any) -> AsyncRemoteStore:
        """Return the same store for asyncio; takes the settings of ``remote_store``."""
        store = self.remote_store(name, **settings)
        return AsyncRemoteStore(store, self._present("async_remote_store()").asking)

    def asgi(self) -> Any:
        """Return the service of ``serve=`` as an ASGI application, to mount it into another
        service.

        Give ``serve=Serving(advertised="http://host:port/path")`` then, without ``bind``.
        """
        from logstate.http.asgi import AsgiService

        present = self._present("asgi()")
        if self._settings.serving is None:
            raise not_asked_for("asgi()")
        return AsgiService(self, present.answers, present.changes, present.topic_reads).app()

    def _present(self, what: str) -> Presence:
        if self._presence is None:
            raise not_asked_for(what)
        return self._presence

    @property
    def is_spare(self) -> bool:
        """True if the group assigned all tasks to other instances; this one waits to take over."""
        return self._workers.is_assigned and not self._workers.tasks()
