"""An Application among the other instances of its id: its directory entry, and its HTTP server.

Only exists with ``serve=`` or ``standby_replicas=``; without the former it has no server. Both have
separate threads and clients; the workers never wait for them.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import cached_property, partial
from importlib.metadata import version
from math import inf
from typing import TYPE_CHECKING, Any

from logstate.app.instance.row_ages import RowAge
from logstate.app.instance.worker_processes import WorkerProcesses
from logstate.app.local_worker import LocalWorker
from logstate.app.settings import Settings
from logstate.app.topic_reads import TopicReads
from logstate.contracts.clients import Cluster
from logstate.contracts.clock import Clock, SystemClock
from logstate.contracts.errors import LogstateError, StoreUnavailableError
from logstate.contracts.serving import Serving
from logstate.contracts.stores import StoreSpec
from logstate.directory.directory_link import HEARTBEAT_MS, DirectoryLink, DirectoryTopic
from logstate.directory.entries import InstanceEntry, MemberEntry, TaskEntry, open_entry
from logstate.directory.metadata import Lookup
from logstate.http.changes import ChangeFeed
from logstate.http.client import Client
from logstate.http.query_handler import QueryHandler
from logstate.http.remote_store import RemoteStore
from logstate.http.tls_files import check_files
from logstate.restore.standby_assignor import GroupView, Peer, TaskOwner
from logstate.topics.manifest_log import log_of

if TYPE_CHECKING:
    from logstate.http.server import Server
from logstate.directory.entries import InstanceMetrics
from logstate.metrics import catalogue
from logstate.metrics.catalogue import Metric
from logstate.metrics.instruments import Metrics

#: the directory calls this ten times a second, and summing the metrics of many tasks takes a while
_KEPT_MS = 500.0
#: topics with separate counts in an entry, which is written every second
_TOPICS_MAX = 200


class MetricsSummary:
    """Caches the sums for a short time. The metrics are one worker's, or those of all merged."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._kept = InstanceMetrics()
        self._kept_ms = float("-inf")

    def now(self) -> InstanceMetrics:
        """Return the counts since the start."""
        now = self._clock.monotonic_ms()
        if now - self._kept_ms >= _KEPT_MS:
            self._kept, self._kept_ms = figures_of(self._metrics), now
        return self._kept


def figures_of(metrics: Metrics) -> InstanceMetrics:
    """Return the sums over all workers and tasks.

    >>> metrics = Metrics()
    >>> at = {"task": "0_1", "node": "counts", "reason": "late"}
    >>> metrics.counter(catalogue.DROPPED_RECORDS, **at).add(2)
    >>> figures_of(metrics).dropped
    2
    """
    took = [read["sum"] for _, read in metrics.series(catalogue.COMMIT_LATENCY)]
    return InstanceMetrics(
        processed=int(metrics.total(catalogue.RECORDS_CONSUMED.name)),
        dropped=int(metrics.total(catalogue.DROPPED_RECORDS.name)),
        dead_lettered=int(metrics.total(catalogue.DEAD_LETTERS.name)),
        commits=int(metrics.total(catalogue.COMMITS.name)),
        commit_seconds=sum(took),
        read=_by_topic(metrics, catalogue.RECORDS_CONSUMED),
        written=_by_topic(metrics, catalogue.RECORDS_PRODUCED),
    )


def _by_topic(metrics: Metrics, metric: Metric) -> dict[str, int]:
    """Return the sums of a counter for each topic; nothing if they would make the entry large."""
    found: Counter[str] = Counter()
    for (_, topic), read in metrics.series(metric):
        found[topic] += int(read["value"])
    return dict(found) if len(found) <= _TOPICS_MAX else {}


_VERSION = version("logstate")
#: a load balancer that has not requested /ready for so long does not follow it
_PROBED_S = 60.0
#: threads that wait for other instances
_ASKING = 40
#: how long others expect a static member back; the default session timeout of the group
PLACE_KEPT_MS = 45_000


class Presence:
    """The directory entry and the HTTP server of one instance."""

    def __init__(
        self,
        settings: Settings,
        serving: Serving,
        workers: LocalWorker | WorkerProcesses,
        cluster: Cluster,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self.serving = serving
        self._workers = workers
        #: id of this run
        self.instance = uuid.uuid4().hex
        self.address = serving.advertised.rstrip("/")
        self._server: Server | None = None
        self._client = Client(serving)
        #: runs awaited reads; its threads start with the first ones
        self.asking = ThreadPoolExecutor(_ASKING, thread_name_prefix="logstate-asking")
        topic = DirectoryTopic(
            settings.application_id, settings.replication_factor, settings.topic_config
        )
        self._cluster, self._clock = cluster, clock
        self._figures = MetricsSummary(workers.metrics, clock)
        self.link = DirectoryLink(
            topic,
            cluster,
            clock,
            self._entry,
            self._update_group_view,
            self._handle_stop_request,
            serving.token,
        )
        self.lookup = Lookup(
            workers.stores.places,
            self.link.known,
            clock.monotonic_ms,
            lambda: self.link.trouble,
        )

    @cached_property
    def answers(self) -> QueryHandler:
        """Answers the requests of other instances."""
        return QueryHandler(
            self.instance,
            self._settings.application_id,
            self.serving,
            self._workers.stores.read,
            self.lookup,
        )

    def remote_store(
        self,
        name: str,
        timeout: timedelta,
        at_least: Mapping[Any, int],
        max_age: timedelta | None,
        *,
        standbys: bool = False,
    ) -> RemoteStore[Any, Any, Any, Any]:
        """Return a store that reads from all instances."""
        return RemoteStore(
            name, self.answers, self._client, timeout, at_least, max_age, standbys=standbys
        )

    def changes(self, spec: StoreSpec, after: str, *, from_beginning: bool) -> ChangeFeed:
        """Return a reader of the committed changes of a store, from its changelog."""
        application_id = self._settings.application_id
        return ChangeFeed(
            spec,
            application_id,
            self._cluster,
            after,
            from_beginning=from_beginning,
            clock=self._clock,
            log_of=partial(
                log_of, application_id=application_id, cluster=self._cluster, clock=self._clock
            ),
        )

    def row_ages(self) -> list[RowAge]:
        """Return how current the rows of other instances were, by their entries, and are now.

        Raises StoreUnavailableError if the directory is unavailable.
        """
        lookup, own = self.lookup, self.instance
        if (why := lookup.why_not()) is not None:
            raise StoreUnavailableError(why)
        return [
            RowAge(
                task,
                one.host or one.instance,
                inf if entry.age_ms is None else entry.age_ms + one.silent_ms,
                entry.rows_lag,
            )
            for one in lookup.instances()
            if one.instance != own
            for task, entry in one.tasks.items()
            if entry.is_readable
        ]

    @cached_property
    def topic_reads(self) -> TopicReads:
        """Reads the newest records of the application's topics."""
        handlers = self._settings.error_handlers
        letters = None if handlers is None else handlers.dead_letter_topic
        return TopicReads(self._settings.application_id, self._cluster, self._clock, letters)

    def listen(self) -> None:
        """Bind the address; raise ConfigError if it, or a certificate, is not available."""
        check_files(self.serving)
        if self.serving.bind:
            from logstate.http.server import Server

            self._server = Server(self.serving)
            self.address = self.address or self._server.address

    def start(self, asgi: Callable[[], Any]) -> None:
        """Start the server and the directory link."""
        if self._server is not None:
            self._server.start(asgi())
        self.link.start()

    def stop(self) -> None:
        """Write a tombstone and stop the server; may also request that all other instances stop."""
        workers = self._workers
        returns = self._settings.static_membership and not workers.leaves_group
        self.link.stop(workers.stops_all, PLACE_KEPT_MS if returns else 0)
        if self._server is not None:
            self._server.stop()
        self._client.close()

    def drain_s(self) -> float:
        """Return how long to answer requests after a stop was requested."""
        is_probed = self._server is not None and self._server.is_probed(_PROBED_S)
        return self.serving.drain.total_seconds() if is_probed else 0.0

    def _handle_stop_request(self, entry: InstanceEntry) -> None:
        if entry.instance != self.instance:
            where = f" at {entry.address}" if entry.address else ""
            reason = "".join(one if one.isprintable() else " " for one in entry.stops_all)
            self._workers.stop_for(
                LogstateError(
                    f"instance {entry.instance!a:.100}{where} requested that all instances of the"
                    f" application stop, after it failed: {reason}"
                )
            )

    def _update_group_view(self) -> None:
        known, now = self.link.known, self._clock.monotonic_ms()
        peers = [
            Peer(member.member_id, member.instance_id, entry.instance, entry.rack)
            for entry, member in known.members(now)
        ]
        holders = [
            TaskOwner(
                frozenset(peer.id for peer in peers if peer.instance == entry.instance),
                frozenset(entry.tasks),
            )
            for entry in known.present(now)
        ]
        self._workers.update_group_view(
            GroupView(
                tuple(sorted(peers, key=lambda peer: peer.id)),
                tuple(holders),
                known.present_members(now),
                known.silent_members(now),
            )
        )

    def _entry(self) -> InstanceEntry:
        workers = self._workers
        reports = workers.task_reports()
        counts = workers.task_counts().items()
        return InstanceEntry(
            self.instance,
            self.address,
            0,
            HEARTBEAT_MS,
            workers=workers.count,
            members=tuple(workers.transactional_ids),
            rack=self.serving.rack or self._settings.clients.rack,
            version=_VERSION,
            tasks={
                task: TaskEntry(
                    0,
                    report.lag.stage,
                    report.is_readable,
                    report.lag.input_records,
                    report.lag.restore_records,
                    dict(report.positions),
                    None if report.age_ms == inf else int(report.age_ms),
                    report.rows_lag,
                    report.stream_time_ms,
                    report.waits_for,
                    int(report.waits_ms),
                    dict(report.partition_times),
                    {node: open_entry(one) for node, one in report.open_rows.items()},
                )
                for task, report in reports.items()
            },
            task_counts={number: count for number, count in counts if count is not None},
            group_members=tuple(MemberEntry(*member) for member in workers.group_members),
            standbys=workers.standbys(),
            figures=self._figures.now(),
        )


def not_asked_for(what: str) -> LogstateError:
    """Return the error for a request about other instances if there is no directory."""
    return LogstateError(
        f"{what} needs the directory of the application's instances, and this instance is not in"
        " it: give Application(serve='127.0.0.1:8080'), or serve=Serving(advertised=...) if"
        " app.asgi() is mounted"
    )


def presence_of(settings: Settings, workers: LocalWorker | WorkerProcesses) -> Presence | None:
    """Return the presence that the settings require; None if they require none."""
    serving = settings.serving
    if serving is None:
        if not settings.standbys.replicas:
            return None
        serving = Serving()
    if isinstance(workers, LocalWorker):  # tests pass their own cluster
        return Presence(settings, serving, workers, workers.cluster, workers.clock)
    return Presence(settings, serving, workers, settings.cluster(), SystemClock())
