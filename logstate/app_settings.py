"""What an Application may be told, checked before anything is opened."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, Self

from logstate.contracts.compatibility import Decisions
from logstate.contracts.errors import ConfigError
from logstate.contracts.seams import Cluster
from logstate.contracts.serving import Serving
from logstate.contracts.standby_settings import NO_STANDBYS, StandbySettings
from logstate.contracts.topic_names import static_member_id, transactional_id
from logstate.contracts.worker_config import (
    CHECKPOINT_BYTES,
    MAX_POLL_INTERVAL_MS,
    ChangelogWrites,
    Guarantee,
    WorkerConfig,
)
from logstate.instance.restarts import UNCAUGHT_RESPONSES, UncaughtHandler
from logstate.kafka.client_settings import ClientSettings
from logstate.task.error_handlers import ErrorHandlers
from logstate.topology.plan.plan import Topology

_MS = timedelta(milliseconds=1)
#: what a transaction may live beside the commit interval: for the record at hand, and the commit
TRANSACTION_SPARE_MS = 10_000
_COMMIT_INTERVAL_MAX = timedelta(minutes=10)


@dataclass(frozen=True)
class StateWrites:
    """When rows go to disk, and which of them to the changelog."""

    checkpoint_interval: timedelta = timedelta(seconds=10)
    checkpoint_bytes: int = CHECKPOINT_BYTES
    changelog: ChangelogWrites = "commit"


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
    group_protocol: Literal["consumer", "classic"]
    static_membership: bool
    slot: int
    handlers: ErrorHandlers
    decisions: Decisions
    start_timeout: timedelta | None
    uncaught: UncaughtHandler = "stop_instance"
    workers: int = 1
    serving: Serving | None = None
    standbys: StandbySettings = NO_STANDBYS

    def checked(self) -> Self:
        """Itself. Raises ConfigError with every problem at once; shows no value of the clients'."""
        problems = [
            *self._of_names(),
            *self._of_times(),
            *self._of_decisions(),
            *self.clients.problems(),
            *(() if self.serving is None else self.serving.problems()),
        ]
        if problems:
            raise ConfigError(problems)
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
            checkpoint_bytes=self.writes.checkpoint_bytes,
            replication_factor=self.replication_factor,
            topic_config=dict(self.topic_config),
            offset_reset=self.offset_reset,
            dead_letter_topic=self.handlers.dead_letter_topic,
            decisions=self.decisions,
            max_poll_interval_ms=self.clients.max_poll_interval_ms(MAX_POLL_INTERVAL_MS),
            transaction_timeout_ms=self.transaction_timeout_ms,
            start_timeout_ms=None if timeout is None else timeout // _MS,
            standby_replicas=self.standbys.replicas,
            standby_bytes_per_s=self.standbys.bytes_per_s,
            acceptable_lag=self.standbys.acceptable_lag,
            warm_up_timeout_ms=self.standbys.warm_up_timeout // _MS,
        )

    # ------------------------------------------------------------------ problems; types are a wish

    def _of_names(self) -> Iterator[str]:
        topology: object = self.topology
        if not isinstance(topology, Topology):
            kind = type(topology).__name__
            yield f"topology must be what StreamsBuilder.build() returns; got {kind}"
        if not self.bootstrap:
            yield "bootstrap is empty; give the brokers as 'host:port,host:port'"
        for name, value, allowed in (
            ("guarantee", self.guarantee, ("exactly_once", "at_least_once")),
            ("changelog_writes", self.writes.changelog, ("commit", "update")),
            ("group_protocol", self.group_protocol, ("consumer", "classic")),
        ):
            if value not in allowed:
                yield f"{name} must be {allowed[0]!r} or {allowed[1]!r}; got {value!r}"
        workers: object = self.workers
        if not isinstance(workers, int) or workers < 1:
            yield f"workers must be a number of processes, at least 1; got {workers!r}"
        yield from self.standbys.problems()
        handler: object = self.uncaught
        if not callable(handler) and handler not in UNCAUGHT_RESPONSES:
            yield (
                "uncaught_exception_handler must be 'stop_instance', 'replace_worker',"
                " 'stop_application', or a function of the exception that returns one of them; got"
                f" {handler!r}"
            )
        if handler == "stop_application" and self.serving is None and not self.standbys.replicas:
            yield (
                "uncaught_exception_handler='stop_application' needs instances that know of each"
                " other: give each serve= or standby_replicas="
            )

    def _of_times(self) -> Iterator[str]:
        reset: object = self.offset_reset
        if reset not in ("earliest", "latest", "none") and not isinstance(reset, timedelta):
            yield (
                "offset_reset must be 'earliest', 'latest', 'none' or a timedelta back from now;"
                f" got {reset!r}"
            )
        yield from _of_interval(
            "commit_interval", self.commit_interval, timedelta(milliseconds=1), _COMMIT_INTERVAL_MAX
        )
        yield from _of_interval(
            "checkpoint_interval", self.writes.checkpoint_interval, timedelta(0), timedelta.max
        )
        timeout: object = self.start_timeout
        if timeout is not None and not isinstance(timeout, timedelta):
            yield (
                f"start_timeout must be a timedelta, or None to wait for ever; got {timeout!r}."
                " Write timedelta(seconds=...)"
            )
        size: object = self.writes.checkpoint_bytes
        if not isinstance(size, int) or size < 1:
            yield f"checkpoint_bytes must be at least 1; got {size}"

    def _of_decisions(self) -> Iterator[str]:
        renamed: object = self.decisions.renamed
        if not isinstance(renamed, Mapping) or not all(
            isinstance(name, str) for name in (*renamed, *renamed.values())
        ):
            yield f"renamed must be {{'stored name': 'declared name'}}; got {renamed!r}"
        forget: object = self.decisions.forget
        if isinstance(forget, str) or not isinstance(forget, Collection):
            yield f"forget must be a set of names, such as {{'counts'}}; got {forget!r}"


def _of_interval(name: str, given: object, least: timedelta, most: timedelta) -> Iterator[str]:
    if not isinstance(given, timedelta):
        yield f"{name} must be a timedelta; got {given!r}. Write timedelta(milliseconds=...)"
    elif given < least:
        yield f"{name} must be at least {least}; got {given}"
    elif given > most:
        yield (
            f"{name} must be at most {most}; got {given}. A transaction stays open for as long, and"
            " brokers allow 15 minutes by default (transaction.max.timeout.ms)"
        )
