"""What may be asked of an Application while it runs, from any thread."""

from __future__ import annotations

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
from logstate.app.served import ServedApplication
from logstate.app.settings import AppSettings
from logstate.changelog.cuts.named_cut import NamedCut
from logstate.changelog.cuts.named_cuts import create_cut
from logstate.contracts.errors import ConfigError, LogstateError, check
from logstate.contracts.setting_rules import durations, positions
from logstate.directory.metadata import KeyQueryMetadata, StreamsMetadata
from logstate.http.remote_store import AsyncRemoteStore, RemoteStore
from logstate.metrics.instruments import Metrics
from logstate.queries.queries import QueryableStore
from logstate.topics.placement import BY_HASH
from logstate.topology.declaring.callbacks import unfit
from logstate.topology.plan.plan import Topology
from logstate.worker.lag import TaskLag


class ApplicationView:
    """State, health, figures and stores of all workers together."""

    _settings: AppSettings
    _held: LocalWorker | WorkerProcesses

    @cached_property
    def _owner(self) -> OwnerProcess:
        return OwnerProcess(self._settings.application_id)

    @property
    def _workers(self) -> LocalWorker | WorkerProcesses:
        """What runs; raises LogstateError in a process that was forked from the one that has it."""
        self._owner.check()
        return self._held

    @_workers.setter
    def _workers(self, workers: LocalWorker | WorkerProcesses) -> None:
        self._owner.check()
        self._held = workers

    @cached_property
    def _lifecycle(self) -> Lifecycle:
        return Lifecycle()

    @cached_property
    def _presence(self) -> Presence | None:
        return presence_of(self._settings, self._workers)

    @property
    def topology(self) -> Topology:
        """What it computes."""
        return self._settings.topology

    @property
    def application_id(self) -> str:
        """Its consumer group, and the beginning of its internal names."""
        return self._settings.application_id

    @property
    def bootstrap(self) -> str:
        """Its brokers, as they were given."""
        return self._settings.bootstrap

    @property
    def transactional_ids(self) -> list[str]:
        """Of the producers of its workers; the same at every start with this ``state_dir``."""
        return self._workers.transactional_ids

    @property
    def transactional_id(self) -> str:
        """The one of the first worker. Raises LogstateError while no worker process runs."""
        known = self._workers.transactional_ids
        if not known:
            raise LogstateError(
                "no worker process runs, and each has a transactional.id of its own"
            )
        return known[0]

    @property
    def is_alive(self) -> bool:
        """True until the worker ended or failed."""
        return not self._workers.is_finished

    @property
    def state(self) -> ApplicationState:
        """What this instance is at."""
        return self._lifecycle.state

    def on_state_change(self, listener: StateListener) -> StateListener:
        """Have ``listener(old, new)`` called at every change of ``state`` from now on.

        One change after the other, in the thread that makes it: the worker's mostly, which waits
        meanwhile, so be quick. What a listener raises is logged, and hurts nothing. Returns the
        listener, and so is a decorator too. Raises ConfigError for what cannot be called so, and
        for coroutine functions, whose call does nothing.
        """
        check(unfit(listener, "the state listener", "(old, new)", 2))
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
        """A store for reading committed local state from any thread; global ones too.

        It answers while the brokers are away too, what was committed last; ``age`` of the store
        says how old that is. With ``max_age`` a read raises StoreUnavailableError instead of
        answering what is older. With ``standbys`` the copies of other instances' tasks answer too
        (``standby_replicas``): committed rows, mostly of the last seconds; ``age`` says how old,
        and ``lag`` how many changelog offsets they lack. The Kafka Streams setting is
        ``enableStaleStores``.

        A read by key that finds nothing raises StoreUnavailableError too, where others write the
        input and some partitions are elsewhere: they may have placed the key there. Whoever knows
        that all of them place keys as Kafka's own clients do says so with ``placed_by="murmur2"``,
        and gets None. Raises ConfigError for any other name, and for a ``max_age`` that is no
        timedelta.
        """
        check(durations("store()", max_age=max_age, optional=True))
        store = self._workers.store(name, max_age, standbys=standbys)
        if placed_by is not None:
            if placed_by != BY_HASH:
                raise ConfigError(
                    f"placed_by={placed_by!r} is not known: 'murmur2' is how Kafka's own clients"
                    " place keys. For another partitioner, pass partition= with each read"
                )
            store.is_placed = True
        return store

    def is_ready(self, *, max_age: timedelta | None = None) -> Health:
        """Whether local reads of all its tasks are answered, with ``reason``; for readiness probes.

        True while the brokers are away, too, unless what it has is older than ``max_age``.
        """
        check(durations("is_ready()", max_age=max_age, optional=True))
        return self._workers.readiness(max_age)

    def is_live(self) -> Health:
        """False, with ``reason``, once only a new start can help; for liveness probes.

        That is after its end, and where one call of a function takes longer than
        ``max.poll.interval.ms``. Brokers that are away are no reason.
        """
        return self._workers.liveness()

    def metrics(self) -> dict[str, Any]:
        """A snapshot of all figures (see logstate.metrics.catalogue)."""
        return self._workers.metrics.snapshot()

    @property
    def metrics_registry(self) -> Metrics:
        """The live instruments, for the Prometheus and OpenTelemetry exporters."""
        return self._workers.metrics

    def tasks(self) -> dict[str, str]:
        """Task id -> stage, of the tasks that are this instance's.

        ``assigned``: it is asked what was committed. ``restoring``: changelogs are replayed.
        ``starting``: its inputs are sought. ``running``: it processes records. An abort begins at
        ``assigned`` again. Without tasks, ``is_spare`` tells an instance that has nothing to do
        from one that the group has not told yet.
        """
        return self._workers.tasks()

    def lags(self) -> dict[str, TaskLag]:
        """Task id -> how far it is behind the ends of its inputs, and of its changelogs.

        Ends are those that the brokers told with the last records: while the application is paused,
        they stand still too.
        """
        return self._workers.lags()

    def standbys(self) -> dict[str, int | None]:
        """Task id -> offsets of its changelogs that are missing here, of tasks of other instances.

        Those that this instance copies, see ``standby_replicas``; None until the ends are known.
        """
        return self._workers.standbys()

    def create_cut(
        self, name: str, *, stores: Collection[str] | None = None, keep: timedelta | None = None
    ) -> NamedCut:
        """Keep the newest cut of all instances under a name, for Spark to read at any later time.

        What it covers of each store, or of those of ``stores``, is copied into topics that nothing
        compacts; it can be read for as long as ``keep``, or until ``logstate cut delete``. Blocks
        the caller as long as copying takes; the application goes on meanwhile. See docs/spark.md.

        Raises ConfigError if there is a cut of this name, somebody else makes one now, or there is
        no such store; TopicError before the first start; RestoreError if a changelog has records
        that no commit covers, or the cut is deleted while it is made; BrokerError.
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

        Of any input record either all that came of it is in the stores, on both sides of every
        repartition topic, or none of it is. Else as ``create_cut``, and read by its name as those
        are. Attempts that a rebalance or a crash spoils are repeated until ``timeout``. See
        docs/spark.md.

        Raises what ``create_cut`` does; SnapshotError if no attempt succeeds in time; ConfigError
        if repartition topics lead in a circle, as those of a join by foreign key do.
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
        """The instances of the application that were heard of lately; this one among them.

        Those that were given ``serve=`` or ``standby_replicas=``; raises LogstateError where this
        one was not.
        """
        return self._present("all_instances()").lookup.instances()

    def metadata_for_store(self, store: str) -> list[StreamsMetadata]:
        """The instances that have partitions of a store.

        Raises StoreUnavailableError for a store that the topology does not have.
        """
        return self._present("metadata_for_store()").lookup.of_store(store)

    def metadata_for_key(
        self, store: str, key: Any, *, partition: int | None = None
    ) -> KeyQueryMetadata:
        """The instance that has a key of a store, whether the key is there or not.

        ``partition`` is only needed where the topology's input uses a partitioner of its own.
        Raises StoreUnavailableError, with the reason, while that is not known, for example during
        a rebalance.
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
        """A store of all instances together: each read goes to whoever owns the partition.

        Reads are tried again through a rebalance, until ``timeout``; then StoreUnavailableError
        has the reason. ``at_least`` are positions, ``{"topic-partition": offset}``, that an answer
        has to have reached: the first offsets that it may lack. With ``standbys`` a copy of the
        task answers where its owner does not; ``answer(...).lag`` tells, and ``max_age`` says how
        old that may be. Raises ConfigError for ``standbys`` with ``at_least``, because copies do
        not know their positions.
        """
        present = self._present("remote_store()")
        check(
            durations("remote_store()", timeout=timeout),
            durations("remote_store()", max_age=max_age, optional=True),
            positions("at_least of remote_store()", at_least or {}),
        )
        if standbys and at_least:
            raise ConfigError(
                "standbys=True and at_least= exclude each other: a copy of a task's state does not"
                " know which input records it holds. Leave one of them out"
            )
        return present.remote_store(name, timeout, at_least or {}, max_age, standbys=standbys)

    def async_remote_store(self, name: str, **settings: Any) -> AsyncRemoteStore:
        """The same for asyncio; takes the settings of ``remote_store``."""
        store = self.remote_store(name, **settings)
        return AsyncRemoteStore(store, self._present("async_remote_store()").asking)

    def asgi(self) -> Any:
        """What ``serve=`` serves, as an ASGI application: mount it into a service of yours.

        Give ``serve=Serving(advertised="http://host:port/path")`` then, without ``bind``.
        """
        from logstate.http.asgi import AsgiService

        present = self._present("asgi()")
        if self._settings.serving is None:
            raise not_asked_for("asgi()")
        return AsgiService(ServedApplication(self, present), present.answers).app()

    def _present(self, what: str) -> Presence:
        if self._presence is None:
            raise not_asked_for(what)
        return self._presence

    @property
    def is_spare(self) -> bool:
        """Whether the group gave every task to other instances; this one waits to take over."""
        return self._workers.is_assigned and not self._workers.tasks()
