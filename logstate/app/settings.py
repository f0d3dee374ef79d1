"""What an Application may be told, checked before anything is opened.

Every setting has its rule here, of :mod:`logstate.contracts.setting_rules` mostly; those of clients
have theirs in :mod:`logstate.kafka.client_settings`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self, get_args

from logstate.app.instance.restarts import UNCAUGHT_RESPONSES, UncaughtHandler
from logstate.changelog.directory import state_root
from logstate.contracts.clients import Cluster
from logstate.contracts.compatibility import MigrationOptions
from logstate.contracts.errors import ConfigError, check
from logstate.contracts.internal_topic_config import problems_of_all
from logstate.contracts.processing import EmitIntervals
from logstate.contracts.serving import Serving
from logstate.contracts.setting_rules import (
    application_id,
    brokers,
    choice,
    count,
    duration,
    emit_intervals,
    flag,
    offset_reset,
    shown,
)
from logstate.contracts.standby_settings import NO_STANDBYS, StandbySettings
from logstate.contracts.topic_names import static_member_id, transactional_id
from logstate.contracts.worker_config import (
    ABORTS_MAX,
    CACHE_BYTES,
    CHECKPOINT_BYTES,
    MAX_POLL_INTERVAL_MS,
    ChangelogWrites,
    Guarantee,
    OnDataLoss,
    OnStateLoss,
    WorkerConfig,
)
from logstate.kafka.client_settings import ClientSettings
from logstate.restore.restore import RestoreListener
from logstate.task.error_handlers import ErrorHandlers
from logstate.topology.declaring.callbacks import unfit
from logstate.topology.plan.plan import Topology

_MS = timedelta(milliseconds=1)
#: what a transaction may live beside the commit interval: for the record at hand, and the commit
TRANSACTION_SPARE_MS = 10_000
_COMMIT_INTERVAL_MAX = timedelta(minutes=10)
#: 16 bits, in Kafka's protocol
_COPIES_MAX = 32_767


@dataclass(frozen=True)
class StateWrites:
    """When rows go to disk, and which of them to the changelog."""

    checkpoint_interval: timedelta = timedelta(seconds=10)
    checkpoint_bytes: int = CHECKPOINT_BYTES
    changelog: ChangelogWrites = "commit"


@dataclass(frozen=True)
class LocalRows:
    """How many rows stay in memory, and how long rows of other instances' tasks stay on disk."""

    cache_bytes: int = CACHE_BYTES
    cleanup_delay: timedelta | None = timedelta(minutes=10)


@dataclass(frozen=True)
class FaultSettings:
    """Which faults end a worker, and which it survives."""

    on_data_loss: OnDataLoss = "fail"
    on_state_loss: OnStateLoss = "fail"
    aborts_max: int = ABORTS_MAX


@dataclass(frozen=True)
class AppSettings:
    """The settings of one Application, as they were given."""

    topology: Topology
    application_id: str
    bootstrap: str
    guarantee: Guarantee
    commit_interval: timedelta
    clients: ClientSettings
    offset_reset: str | timedelta
    replication_factor: int
    topic_config: Mapping[str, str]
    writes: StateWrites
    rows: LocalRows
    group_protocol: Literal["consumer", "classic"]
    static_membership: bool
    slot: int
    handlers: ErrorHandlers
    decisions: MigrationOptions
    start_timeout: timedelta | None
    state_dir: str | Path
    uncaught: UncaughtHandler = "stop_instance"
    workers: int = 1
    serving: Serving | None = None
    standbys: StandbySettings = NO_STANDBYS
    listener: RestoreListener | None = None
    window_emit_interval: timedelta | None = None
    outer_join_emit_interval: timedelta | None = None
    faults: FaultSettings = FaultSettings()

    def checked(self) -> Self:
        """Itself. Raises ConfigError with every problem at once; shows no value of the clients'."""
        check(
            self._of_names(),
            self._of_numbers(),
            self._of_times(),
            self._of_topics(),
            self.decisions.problems(),
            self.clients.problems(),
        )
        return self

    @property
    def transaction_timeout_ms(self) -> int:
        """How long a transaction may live: it has to outlive a commit interval."""
        return TRANSACTION_SPARE_MS + self.commit_interval // _MS

    def cluster(self) -> Cluster:
        """The brokers; loads the client's library."""
        from logstate.kafka.cluster import KafkaCluster

        stores = self.topology.stores.values()
        return KafkaCluster(
            self.bootstrap,
            self.clients,
            client_id=self.application_id,
            group_protocol=self.group_protocol,
            transaction_timeout_ms=self.transaction_timeout_ms,
            reader_group=self.application_id,
            tells_positions=any(spec.is_logged and not spec.source_topic for spec in stores),
        )

    def worker_config(self, instance_id: str) -> WorkerConfig:
        """What the worker of an instance is told."""
        member_id = static_member_id(self.application_id, instance_id)
        timeout = self.start_timeout
        return WorkerConfig(
            application_id=self.application_id,
            transactional_id=transactional_id(self.application_id, instance_id, self.slot),
            instance_id=member_id if self.static_membership else None,
            guarantee=self.guarantee,
            changelog_writes=self.writes.changelog,
            commit_interval_ms=self.commit_interval // _MS,
            checkpoint_interval_ms=self.writes.checkpoint_interval // _MS,
            checkpoint_bytes=max(1, self.writes.checkpoint_bytes // self.workers),
            cache_bytes=self.rows.cache_bytes // self.workers,
            replication_factor=self.replication_factor,
            topic_config=dict(self.topic_config),
            offset_reset=self.offset_reset,
            on_data_loss=self.faults.on_data_loss,
            aborts_max=self.faults.aborts_max,
            dead_letter_topic=self.handlers.dead_letter_topic,
            emit_intervals=EmitIntervals.of(
                self.window_emit_interval, self.outer_join_emit_interval
            ),
            on_state_loss=self.faults.on_state_loss,
            decisions=self.decisions,
            max_poll_interval_ms=self.clients.max_poll_interval_ms(MAX_POLL_INTERVAL_MS),
            transaction_timeout_ms=self.transaction_timeout_ms,
            start_timeout_ms=None if timeout is None else timeout // _MS,
            standby_replicas=self.standbys.replicas,
            standby_bytes_per_s=self.standbys.bytes_per_s,
            acceptable_lag=self.standbys.acceptable_lag,
            warm_up_timeout_ms=self.standbys.warm_up_timeout // _MS,
            application_config=self.for_processors(),
        )

    def for_processors(self) -> Mapping[str, Any]:
        """By the names that an Application has for them; without those that may be secrets."""
        return MappingProxyType(
            {
                "application_id": self.application_id,
                "bootstrap": self.bootstrap,
                "state_dir": state_root(self.state_dir),
                "guarantee": self.guarantee,
                "commit_interval": self.commit_interval,
                "offset_reset": self.offset_reset,
                "on_data_loss": self.faults.on_data_loss,
                "aborts_max": self.faults.aborts_max,
                "replication_factor": self.replication_factor,
                "topic_config": MappingProxyType(dict(self.topic_config)),
                "checkpoint_interval": self.writes.checkpoint_interval,
                "checkpoint_bytes": self.writes.checkpoint_bytes,
                "cache_bytes": self.rows.cache_bytes,
                "state_cleanup_delay": self.rows.cleanup_delay,
                "changelog_writes": self.writes.changelog,
                "group_protocol": self.group_protocol,
                "static_membership": self.static_membership,
                "slot": self.slot,
                "start_timeout": self.start_timeout,
                "workers": self.workers,
                "standby_replicas": self.standbys.replicas,
                "on_state_loss": self.faults.on_state_loss,
            }
        )

    # ------------------------------------------------------------------ problems; types are a wish

    def _of_names(self) -> Iterator[str]:
        topology: object = self.topology
        if not isinstance(topology, Topology):
            kind = type(topology).__name__
            yield f"topology must be what StreamsBuilder.build() returns; got {kind}"
        yield from application_id("application_id", self.application_id)
        yield from brokers("bootstrap", self.bootstrap)
        try:
            state_root(self.state_dir)
        except ConfigError as exc:
            yield from exc.problems
        yield from choice("guarantee", self.guarantee, get_args(Guarantee))
        yield from choice("changelog_writes", self.writes.changelog, get_args(ChangelogWrites))
        yield from choice("on_data_loss", self.faults.on_data_loss, get_args(OnDataLoss))
        yield from choice("group_protocol", self.group_protocol, ("consumer", "classic"))
        yield from choice("on_state_loss", self.faults.on_state_loss, get_args(OnStateLoss))
        yield from flag("static_membership", self.static_membership)
        yield from self._of_handlers()

    def _of_handlers(self) -> Iterator[str]:
        handlers: object = self.handlers
        if not isinstance(handlers, ErrorHandlers):
            yield (
                "error_handlers must be ErrorHandlers(...), which says what each handler is for;"
                f" got {shown(handlers)}. Write ErrorHandlers(processing=...), with"
                " deserialization= and production= where they are meant"
            )
        elif isinstance(self.topology, Topology):
            yield from handlers.problems_with(self.topology.stores.values())
        handler: object = self.uncaught
        if not callable(handler) and handler not in UNCAUGHT_RESPONSES:
            yield (
                "uncaught_exception_handler must be 'stop_instance', 'replace_worker',"
                " 'stop_application', or a function of the exception that returns one of them; got"
                f" {shown(handler)}"
            )
        elif callable(handler):
            yield from unfit(handler, "uncaught_exception_handler", "the exception", 1)
        if handler == "stop_application" and self.serving is None and not self.standbys.replicas:
            yield (
                "uncaught_exception_handler='stop_application' needs instances that know of each"
                " other: give each serve= or standby_replicas="
            )
        listener: object = self.listener
        if listener is not None:
            yield from unfit(listener, "restore_listener", "each RestoreProgress", 1)

    def _of_numbers(self) -> Iterator[str]:
        yield from count("workers", self.workers, least=1)
        yield from count("aborts_max", self.faults.aborts_max, least=0)
        yield from count("slot", self.slot, least=0)
        yield from count("checkpoint_bytes", self.writes.checkpoint_bytes, least=1)
        yield from count("cache_bytes", self.rows.cache_bytes, least=0)
        factor: object = self.replication_factor
        if factor != -1 or isinstance(factor, bool):
            also = ", or -1 for the brokers' default"
            yield from count("replication_factor", factor, least=1, most=_COPIES_MAX, also=also)
        yield from self.standbys.problems()
        serving: object = self.serving
        if isinstance(serving, Serving):
            yield from serving.problems()
        elif serving is not None:
            yield (
                "serve must be 'host:port', such as '127.0.0.1:8080', or Serving(...); got"
                f" {shown(serving)}"
            )

    def _of_times(self) -> Iterator[str]:
        yield from offset_reset("offset_reset", self.offset_reset)
        yield from duration(
            "commit_interval",
            self.commit_interval,
            least=_MS,
            most=_COMMIT_INTERVAL_MAX,
            why=". A transaction stays open for as long, and brokers allow 15 minutes by default"
            " (transaction.max.timeout.ms)",
            unit="milliseconds",
        )
        yield from duration("checkpoint_interval", self.writes.checkpoint_interval)
        yield from duration("start_timeout", self.start_timeout, optional=True)
        yield from duration("state_cleanup_delay", self.rows.cleanup_delay, optional=True)
        yield from emit_intervals(self.window_emit_interval, self.outer_join_emit_interval)

    def _of_topics(self) -> Iterator[str]:
        topology: object = self.topology
        if not isinstance(topology, Topology):
            return
        kept = [s.retention_ms or 0 for s in topology.stores.values() if s.traits.is_segmented]
        yield from problems_of_all(
            self.topic_config,
            repartitions=bool(topology.internal_topics),
            kept_ms=max(kept, default=None),
        )
