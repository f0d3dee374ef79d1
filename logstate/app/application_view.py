"""Observation and queries of a running Application. Thread-safe."""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import timedelta
from functools import cached_property, partial
from typing import Any

from logstate.app.drain import Drain
from logstate.app.instance.health import STOPPING, Health
from logstate.app.instance.row_ages import Limits, RowAge, exceeded, upstream_of
from logstate.app.instance.states import ApplicationState, Lifecycle, StateListener
from logstate.app.presence import not_asked_for
from logstate.app.store_access import StoreAccess
from logstate.changelog.cuts.named_cut import NamedCut
from logstate.changelog.cuts.named_cuts import create_cut
from logstate.contracts.errors import LogstateError, StoreUnavailableError, check
from logstate.contracts.setting_rules import count, durations
from logstate.directory.metadata import KeyQueryMetadata, StreamsMetadata
from logstate.http.openapi import openapi_document, show_in
from logstate.metrics.instruments import Metrics
from logstate.topology.declaring.callbacks import signature_problems
from logstate.topology.plan.plan import Topology
from logstate.worker.task_lag import TaskLag

_LOGGER = logging.getLogger(__name__)


class ApplicationView(StoreAccess):
    """State, health, metrics and stores of all workers together."""

    #: delays a stop while it runs; only of an instance that serves queries
    _drain: Drain | None = None

    @cached_property
    def _lifecycle(self) -> Lifecycle:
        lifecycle = Lifecycle()
        lifecycle.listen(self._log_change)
        return lifecycle

    def _log_change(self, old: ApplicationState, new: ApplicationState) -> None:
        _LOGGER.info("application %s: %s -> %s", self.application_id, old.value, new.value)

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

    def is_ready(self, *, max_lag: int | None = None, max_age: timedelta | None = None) -> Health:
        """Report whether requests should be sent to this instance, with ``reason``; for readiness
        probes.

        After the start it is true once all its tasks can be read, and remains true during a
        rebalance as long as a task or a standby here can be read, and while the brokers are
        unavailable. It is false from the moment in which the application was asked to stop.

        With ``max_lag`` it is false while the rows of an instance lack more input records than
        that, over all of its tasks. With ``max_age`` it is false while rows did not include
        everything that their inputs contained, for longer than that: no read returns older rows
        then. An instance in the directory (``serve=``) returns rows of the other instances too, so
        these count as well. Raises ConfigError for a ``max_lag`` below 0, and for a ``max_age``
        that is not a timedelta. See docs/probes.md.
        """
        check(
            durations("is_ready()", max_age=max_age, optional=True),
            () if max_lag is None else count("max_lag of is_ready()", max_lag, least=0),
        )
        return self._ready_within(Limits(max_lag, max_age))

    def _ready_within(self, limits: Limits) -> Health:
        is_draining = self._drain is not None and self._drain.has_begun
        if is_draining and not self._workers.is_finished:
            return Health(False, STOPPING)
        found = self._workers.readiness()
        if not found or limits == Limits():
            return found
        rows = [
            RowAge(task, "", report.age_ms, report.rows_lag, report.silence_ms)
            for task, report in self._workers.task_reports().items()
            if report.is_readable
        ]
        if self._presence is not None and (limits.max_lag, limits.max_age) != (None, None):
            try:
                rows += self._presence.row_ages()
            except StoreUnavailableError as exc:
                return Health(False, f"the rows of other instances are of unknown age: {exc}")
        why = exceeded(limits, rows, self._upstream)
        return found if why is None else Health(False, why)

    @cached_property
    def _upstream(self) -> dict[int, frozenset[int]]:
        return upstream_of(self.topology.sub_topologies)

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
        return self._running_presence("all_instances()").lookup.instances()

    def metadata_for_store(self, store: str) -> list[StreamsMetadata]:
        """Return the instances that have partitions of a store.

        Raises StoreUnavailableError for a store that the topology does not have.
        """
        return self._running_presence("metadata_for_store()").lookup.of_store(store)

    def metadata_for_key(
        self, store: str, key: Any, *, partition: int | None = None
    ) -> KeyQueryMetadata:
        """Return the instance that has a key of a store, whether or not the key exists.

        ``partition`` is only necessary if the topology's input uses a custom partitioner. Raises
        StoreUnavailableError, with the reason, while the owner is unknown, for example during a
        rebalance.
        """
        return self._running_presence("metadata_for_key()").lookup.of_key(store, key, partition)

    def asgi(self) -> Any:
        """Return the service of ``serve=`` as an ASGI application, to mount it into another
        service.

        Give ``serve=Serving(advertised="http://host:port/path")`` then, without ``bind``.
        """
        from logstate.http.asgi import AsgiService

        present = self._running_presence("asgi()")
        if self._settings.serving is None:
            raise not_asked_for("asgi()")
        max_silence = present.serving.max_age
        return AsgiService(
            self,
            present.answers,
            present.changes,
            present.topic_reads,
            lambda lag, age: self._ready_within(Limits(lag, age, max_silence)),
        ).app()

    def mount_in(self, service: Any, path: str) -> None:
        """Mount ``asgi()`` into a FastAPI or Starlette service; FastAPI's docs show its paths.

        The OpenAPI document of a FastAPI service then contains the paths of this instance, with the
        types of each store. ``path`` begins with a slash, as for ``service.mount``. Raises the
        errors of ``asgi()``.
        """
        service.mount(path, self.asgi())
        show_in(service, partial(self.openapi, prefix=path), path)

    def openapi(self, *, prefix: str = "") -> dict[str, Any]:
        """Return the OpenAPI 3.1 document of ``asgi()``, which serves it as ``/openapi.json``.

        ``prefix`` is the path at which it is mounted.

        >>> from logstate import Application, StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> _ = builder.stream("orders", value=int).group_by_key().count(store="spend")
        >>> app = Application(builder.build(), application_id="shop", bootstrap="localhost:9092",
        ...                   state_dir="state", serve="127.0.0.1:8080")
        >>> list(app.openapi()["paths"])[:3]
        ['/stores/spend/{key}', '/stores/spend', '/stores/spend/changes']
        """
        settings = self._settings
        if settings.serving is None:
            raise not_asked_for("openapi()")
        return openapi_document(
            settings.topology,
            settings.application_id,
            needs_token=bool(settings.serving.token),
            prefix=prefix,
        )

    @property
    def is_spare(self) -> bool:
        """True if the group assigned all tasks to other instances; this one waits to take over."""
        return self._workers.is_assigned and not self._workers.tasks()
