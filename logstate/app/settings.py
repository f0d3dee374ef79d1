"""The settings of an application: the type, the default and the rule of each, declared once.

``Application`` takes its defaults from here and passes one frozen :class:`Settings` through: to
validation, to the workers (:meth:`Settings.worker_config`), to worker processes and to processors.
The rules are functions of :mod:`logstate.contracts.setting_rules`; settings of Kafka clients have
theirs in :mod:`logstate.kafka.client_settings`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self, get_args

from logstate.app.instance.restarts import UNCAUGHT_RESPONSES, UncaughtHandler
from logstate.changelog.directory import state_root
from logstate.contracts.clients import Cluster
from logstate.contracts.compatibility import MigrationOptions
from logstate.contracts.errors import ConfigError, check
from logstate.contracts.internal_topic_config import problems_of_all
from logstate.contracts.processing import EmitIntervals, Traces
from logstate.contracts.rocksdb_config import RocksDbConfig, rocksdb_config
from logstate.contracts.serving import Serving
from logstate.contracts.setting_rules import (
    application_id,
    brokers,
    choice,
    count,
    duration,
    emit_interval,
    flag,
    offset_reset,
    share,
    shown,
    topic_prefix,
)
from logstate.contracts.standby_settings import StandbySettings
from logstate.contracts.topic_names import static_member_id, transactional_id
from logstate.contracts.worker_config import (
    MAX_POLL_INTERVAL_MS,
    ChangelogWrites,
    Guarantee,
    OnDataLoss,
    OnStateLoss,
    WorkerConfig,
)
from logstate.kafka.client_settings import ClientSettings
from logstate.restore.restore import RestoreListener
from logstate.task.error_handlers import FAIL_ALWAYS, ErrorHandlers
from logstate.topology.declaring.callbacks import signature_problems
from logstate.topology.plan.plan import Topology
from logstate.worker.summary import GROWING, SummaryIntervals

GroupProtocol = Literal["consumer", "classic"]
SummaryInterval = timedelta | Literal["growing"] | None

_MS = timedelta(milliseconds=1)
#: added to the commit interval: the time of the record being processed and of the commit itself
TRANSACTION_SPARE_MS = 10_000
_COMMIT_INTERVAL_MAX = timedelta(minutes=10)
#: 16 bits, in Kafka's protocol
_COPIES_MAX = 32_767

Rule = Callable[[str, object], Iterator[str]]


def setting(
    default: Any = MISSING,
    rule: Rule | None = None,
    *,
    default_factory: Any = MISSING,
    for_processors: bool = True,
) -> Any:
    """A field of :class:`Settings`.

    ``rule`` yields the problems of a value of any type. Settings that may contain secrets, and
    objects that only the application uses, are not shown to processors.
    """
    metadata = {"rule": rule, "for_processors": for_processors}
    return field(default=default, default_factory=default_factory, metadata=metadata)


def _replication_factor(name: str, given: object) -> Iterator[str]:
    if given != -1 or isinstance(given, bool):
        also = ", or -1 for the brokers' default"
        yield from count(name, given, least=1, most=_COPIES_MAX, also=also)


def _state_dir(name: str, given: object) -> Iterator[str]:  # noqa: ARG001 - state_root names it
    try:
        state_root(given)
    except ConfigError as error:
        yield from error.problems


def _topology(name: str, given: object) -> Iterator[str]:
    if not isinstance(given, Topology):
        kind = type(given).__name__
        yield f"{name} must be what StreamsBuilder.build() returns; got {kind}"


def _error_handlers(name: str, given: object) -> Iterator[str]:
    if given is not None and not isinstance(given, ErrorHandlers):
        yield (
            f"{name} must be ErrorHandlers(...), which defines what each handler is for;"
            f" got {shown(given)}. Write ErrorHandlers(processing=...), with"
            " deserialization= and production= as needed"
        )


def _check_handler(name: str, given: object) -> Iterator[str]:
    if callable(given):
        yield from signature_problems(given, name, "the exception", 1)
    elif given not in UNCAUGHT_RESPONSES:
        yield (
            f"{name} must be 'stop_instance', 'replace_worker',"
            " 'stop_application', or a function of the exception that returns one of them; got"
            f" {shown(given)}"
        )


def _check_listener(name: str, given: object) -> Iterator[str]:
    if given is not None:
        yield from signature_problems(given, name, "each RestoreProgress", 1)


def _check_serve(name: str, given: object) -> Iterator[str]:
    if given is not None and not isinstance(given, str | Serving):
        yield (
            f"{name} must be 'host:port', such as '127.0.0.1:8080', or Serving(...); got"
            f" {shown(given)}"
        )


_commit_interval = partial(
    duration,
    least=_MS,
    most=_COMMIT_INTERVAL_MAX,
    why=". A transaction stays open for as long, and brokers allow 15 minutes by default"
    " (transaction.max.timeout.ms)",
    unit="milliseconds",
)
_optional_duration = partial(duration, optional=True)


def _summary_interval(name: str, given: object) -> Iterator[str]:
    if given == "growing" or given is None:
        return
    if not isinstance(given, timedelta) or given <= timedelta(0):
        yield (
            f"{name} must be 'growing', a timedelta above 0, or None; got {shown(given)}. Write"
            " timedelta(minutes=...)"
        )


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The arguments of one Application, under the names and with the defaults that it documents."""

    topology: Topology = setting(rule=_topology, for_processors=False)
    application_id: str = setting(rule=application_id)
    bootstrap: str = setting(rule=brokers)
    state_dir: str | Path = setting(rule=_state_dir)
    guarantee: Guarantee = setting(
        WorkerConfig.guarantee, partial(choice, allowed=get_args(Guarantee))
    )
    commit_interval: timedelta = setting(WorkerConfig.commit_interval_ms * _MS, _commit_interval)
    kafka: Mapping[str, Any] | None = setting(None, for_processors=False)
    consumer: Mapping[str, Any] | None = setting(None, for_processors=False)
    producer: Mapping[str, Any] | None = setting(None, for_processors=False)
    admin: Mapping[str, Any] | None = setting(None, for_processors=False)
    offset_reset: str | timedelta = setting(WorkerConfig.offset_reset, offset_reset)
    topic_prefix: str = setting("", topic_prefix)
    replication_factor: int = setting(WorkerConfig.replication_factor, _replication_factor)
    topic_config: Mapping[str, str] = setting(default_factory=dict)
    topics_interval: timedelta = setting(
        WorkerConfig.topics_interval_ms * _MS, partial(duration, least=_MS)
    )
    checkpoint_interval: timedelta = setting(WorkerConfig.checkpoint_interval_ms * _MS, duration)
    checkpoint_bytes: int = setting(WorkerConfig.checkpoint_bytes, partial(count, least=1))
    cache_bytes: int = setting(WorkerConfig.cache_bytes, partial(count, least=0))
    rocksdb: RocksDbConfig = setting(WorkerConfig.rocksdb, rocksdb_config, for_processors=False)
    state_cleanup_delay: timedelta | None = setting(timedelta(minutes=10), _optional_duration)
    changelog_writes: ChangelogWrites = setting(
        WorkerConfig.changelog_writes, partial(choice, allowed=get_args(ChangelogWrites))
    )
    group_protocol: GroupProtocol = setting(
        "consumer", partial(choice, allowed=get_args(GroupProtocol))
    )
    static_membership: bool = setting(False, flag)
    slot: int = setting(0, partial(count, least=0))
    restore_listener: RestoreListener | None = setting(None, _check_listener, for_processors=False)
    error_handlers: ErrorHandlers | None = setting(None, _error_handlers, for_processors=False)
    renamed: Mapping[str, str] | None = setting(None, for_processors=False)
    forget: Collection[str] = setting((), for_processors=False)
    start_timeout: timedelta | None = setting(None, _optional_duration)
    log_summary_interval: SummaryInterval = setting("growing", _summary_interval)
    trace_ratio: float | None = setting(None, share)
    uncaught_exception_handler: UncaughtHandler = setting(
        "stop_instance", _check_handler, for_processors=False
    )
    workers: int = setting(1, partial(count, least=1))
    serve: str | Serving | None = setting(None, _check_serve, for_processors=False)
    standby_replicas: int | StandbySettings = setting(0)
    window_emit_interval: timedelta | None = setting(None, emit_interval, for_processors=False)
    outer_join_emit_interval: timedelta | None = setting(None, emit_interval, for_processors=False)
    on_state_loss: OnStateLoss = setting(
        WorkerConfig.on_state_loss, partial(choice, allowed=get_args(OnStateLoss))
    )
    on_data_loss: OnDataLoss = setting(
        WorkerConfig.on_data_loss, partial(choice, allowed=get_args(OnDataLoss))
    )
    max_task_idle: timedelta | None = setting(timedelta(0), _optional_duration)
    buffered_records_per_partition: int = setting(
        WorkerConfig.buffered_records_per_partition, partial(count, least=1)
    )
    aborts_max: int = setting(WorkerConfig.aborts_max, partial(count, least=0))

    def checked(self) -> Self:
        """Return the settings. Raise ConfigError with every problem; it shows no client setting."""
        check(
            *(
                each.metadata["rule"](each.name, getattr(self, each.name))
                for each in fields(self)
                if each.metadata["rule"] is not None
            ),
            self._problems_together(),
            self.decisions.problems(),
            self.clients.problems(),
        )
        return self

    def prefixed(self) -> Self:
        """Return the settings with ``topic_prefix`` before the topics of the user.

        Raises ConfigError or TopologyError if a name is not one of a topic then.
        """
        if not self.topic_prefix:
            return self
        handlers = self.handlers
        return replace(
            self,
            topology=self.topology.with_topic_prefix(self.topic_prefix),
            error_handlers=replace(
                handlers,
                dead_letter_topic=handlers.dead_letter_topic
                and self.topic_prefix + handlers.dead_letter_topic,
            ),
        )

    # ------------------------------------------------------------------ parts

    @cached_property
    def clients(self) -> ClientSettings:
        """The settings of Kafka clients, by the kind of client."""
        return ClientSettings.of(self.kafka, self.consumer, self.producer, self.admin)

    @cached_property
    def decisions(self) -> MigrationOptions:
        """What to do about stored state that the topology no longer names."""
        return MigrationOptions({} if self.renamed is None else self.renamed, self.forget)

    @cached_property
    def handlers(self) -> ErrorHandlers:
        return FAIL_ALWAYS if self.error_handlers is None else self.error_handlers

    def traces(self) -> Traces | None:
        """Return what makes the spans of records; None without ``trace_ratio``.

        Raises ImportError without OpenTelemetry.
        """
        if self.trace_ratio is None:
            return None
        from logstate.metrics.opentelemetry import RecordTraces

        return RecordTraces(self.application_id, self.trace_ratio)

    @cached_property
    def serving(self) -> Serving | None:
        return Serving(bind=self.serve) if isinstance(self.serve, str) else self.serve

    @cached_property
    def standbys(self) -> StandbySettings:
        return StandbySettings.of(self.standby_replicas)

    @property
    def transaction_timeout_ms(self) -> int:
        """How long a transaction may stay open: longer than a commit interval."""
        return TRANSACTION_SPARE_MS + self.commit_interval // _MS

    def cluster(self) -> Cluster:
        """Return the client of the brokers; imports the client library."""
        from logstate.kafka.cluster import KafkaCluster

        stores = self.topology.stores.values()
        return KafkaCluster(
            self.bootstrap,
            self.clients,
            client_id=self.application_id,
            group_protocol=self.group_protocol,
            transaction_timeout_ms=self.transaction_timeout_ms,
            reader_group=self.application_id,
            reports_positions=any(spec.is_logged and not spec.source_topic for spec in stores),
        )

    @property
    def summary_intervals(self) -> SummaryIntervals | None:
        """The times between two summaries in the log; None: there are none."""
        given = self.log_summary_interval
        if given is None:
            return None
        return GROWING if given == "growing" else SummaryIntervals(given / _MS, given / _MS)

    def worker_config(self, instance_id: str) -> WorkerConfig:
        """Return the settings of one worker of an instance.

        A field of :class:`WorkerConfig` takes the setting of its name, or, in milliseconds, the
        duration whose name it has with ``_ms`` at the end.
        """
        own = self.for_processors()
        derived: dict[str, Any] = {}
        for each in fields(WorkerConfig):
            if each.name in own:
                derived[each.name] = own[each.name]
            elif (name := each.name.removesuffix("_ms")) in own:
                derived[each.name] = None if own[name] is None else own[name] // _MS
        member_id = static_member_id(self.application_id, instance_id)
        return WorkerConfig(
            **derived
            | {
                "transactional_id": transactional_id(self.application_id, instance_id, self.slot),
                "instance_id": member_id if self.static_membership else None,
                "topic_config": dict(self.topic_config),
                "checkpoint_bytes": max(1, self.checkpoint_bytes // self.workers),
                "cache_bytes": self.cache_bytes // self.workers,
                "rocksdb": self.rocksdb.share_of(self.workers),
                "dead_letter_topic": self.handlers.dead_letter_topic,
                "emit_intervals": EmitIntervals.of(
                    self.window_emit_interval, self.outer_join_emit_interval
                ),
                "decisions": self.decisions,
                "max_poll_interval_ms": self.clients.max_poll_interval_ms(MAX_POLL_INTERVAL_MS),
                "transaction_timeout_ms": self.transaction_timeout_ms,
                "standby_bytes_per_s": self.standbys.bytes_per_s,
                "acceptable_lag": self.standbys.acceptable_lag,
                "warm_up_timeout_ms": self.standbys.warm_up_timeout // _MS,
                "application_config": own,
            }
        )

    def for_processors(self) -> Mapping[str, Any]:
        """Return the settings that processors can read, by the names of Application's arguments."""
        shown_fields = (each.name for each in fields(self) if each.metadata["for_processors"])
        return MappingProxyType(
            {name: getattr(self, name) for name in shown_fields}
            | {
                "state_dir": state_root(self.state_dir),
                "topic_config": MappingProxyType(dict(self.topic_config)),
                "standby_replicas": self.standbys.replicas,
            }
        )

    # ------------------------------------------------------------------ problems of several

    def _problems_together(self) -> Iterator[str]:
        topology: object = self.topology
        if isinstance(topology, Topology):
            if isinstance(self.handlers, ErrorHandlers):
                yield from self.handlers.problems_with(topology.stores.values())
            kept = [s.retention_ms or 0 for s in topology.stores.values() if s.expires]
            yield from problems_of_all(
                self.topic_config,
                repartitions=bool(topology.internal_topics),
                kept_ms=max(kept, default=None),
            )
        yield from self.standbys.problems()
        if isinstance(self.serving, Serving):
            yield from self.serving.problems()
        is_alone = self.serving is None and not self.standbys.replicas
        if self.uncaught_exception_handler == "stop_application" and is_alone:
            yield (
                "uncaught_exception_handler='stop_application' needs instances that know each"
                " other: give each serve= or standby_replicas="
            )
