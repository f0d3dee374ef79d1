"""The manifests in the cuts topic of an application, as one start reads them.

Two instances may start at the same moment without a manifest, with topologies that do not fit. Both
find none, so a check before writing does not suffice. Each one checks again after it has written:
the instance with the later record in the log gives way.

A reset or a move to other partitions begins with an empty group, and with a mark in place of the
manifest. An instance that had already written its own, and had not joined yet, would miss the mark:
it checks once more when it is a member (``decided_manifests``). A process that writes a manifest
later finds that the group has a member, and stops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.changelog.cut import MANIFEST_KEY
from logstate.changelog.stored_manifest import changelog_named, decode_manifest
from logstate.contracts.clients import Admin, Cluster, LogConsumer, Step, Steps, run_steps
from logstate.contracts.clock import Clock
from logstate.contracts.errors import RetriableError
from logstate.contracts.records import TopicPartition
from logstate.contracts.topic_names import cuts_topic

_BATCH = 1_000
_POLL_S = 0.2
#: limit without progress; a dead instance's transaction hides the end for ten seconds at most
_PATIENCE_MS = 60_000


class ManifestLog:
    """Reads the manifests in order, each one once."""

    def __init__(self, application_id: str, cluster: Cluster, admin: Admin, clock: Clock) -> None:
        self._partition = TopicPartition(cuts_topic(application_id), 0)
        self._cluster = cluster
        self._admin = admin
        self._clock = clock
        self._consumer: LogConsumer | None = None
        self._position = 0

    def new_manifests(self, is_stopping: Callable[[], bool]) -> Steps[list[bytes] | None]:
        """Return those written since the last call, oldest first; none if the topic is missing.

        Returns None if ``is_stopping`` ended the wait for an open transaction. Raises
        RetriableError if an open transaction hides the end of the log for too long.
        """
        described = yield Step(
            "describe_topics", self._admin.describe_topics, ([self._partition.topic],)
        )
        if self._partition.topic not in described:
            return []
        ends = yield Step("manifest_ends", self._admin.end_offsets, ([self._partition],))
        return (yield from self._read_to(ends[self._partition], is_stopping))

    def decided_manifests(self, is_stopping: Callable[[], bool]) -> Steps[list[bytes] | None]:
        """Return the same without open transactions, which are not waited for.

        If nothing was written since, this costs one request to the brokers.
        """
        stable = yield Step("manifest_stable_end", self._admin.stable_offsets, ([self._partition],))
        return (yield from self._read_to(stable[self._partition], is_stopping))

    def _read_to(self, end: int, is_stopping: Callable[[], bool]) -> Steps[list[bytes] | None]:
        found: list[bytes] = []
        if self._position < end:
            consumer = yield from self._open()
            moved_ms = self._clock.monotonic_ms()
            while self._position < end:
                polled = yield Step("manifest_poll", consumer.poll, (_BATCH, _POLL_S))
                for record in polled.records.get(self._partition, ()):
                    if record.key() == MANIFEST_KEY:
                        # A null deletes earlier ones: this removes a damaged manifest.
                        found = [*found, value] if (value := record.value()) else []
                reached = yield Step("manifest_position", consumer.position, (self._partition,))
                if is_stopping():
                    return None
                now_ms = self._clock.monotonic_ms()
                if (reached or 0) > self._position:
                    self._position, moved_ms = reached, now_ms
                elif now_ms - moved_ms > _PATIENCE_MS:
                    raise RetriableError(
                        f"the manifest in {self._partition} could not be read: no record arrived"
                        f" after offset {self._position} of {end}. A transaction is still open"
                    )
        return found

    def close(self) -> Steps[None]:
        """Release the consumer."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            yield Step("close_manifest_reader", consumer.close)

    def _open(self) -> Steps[LogConsumer]:
        if self._consumer is None:
            self._consumer = yield Step("new_manifest_reader", self._cluster.log_consumer)
            starts = yield Step("manifest_starts", self._admin.start_offsets, ([self._partition],))
            self._position = starts[self._partition]
            assign = self._consumer.assign
            yield Step("manifest_assign", assign, ({self._partition: self._position},))
        return self._consumer


def newest_manifest(
    application_id: str, cluster: Cluster, admin: Admin, clock: Clock
) -> dict[str, Any] | None:
    """Return the manifest that was written last, or None.

    Raises RestoreError for a damaged one. Waits for the brokers.
    """
    log = ManifestLog(application_id, cluster, admin, clock)
    try:
        found = run_steps(log.new_manifests(lambda: False))
        return decoded(found[-1], application_id) if found else None
    finally:
        run_steps(log.close())


def log_of(
    admin: Admin, store: str, *, application_id: str, cluster: Cluster, clock: Clock
) -> str | None:
    """Return the changelog of a store by the newest manifest; None if it has none.

    The changelog of a store that was renamed, or moved to other partitions, has another name.
    Waits for the brokers.
    """
    found = decided_manifest(admin, application_id=application_id, cluster=cluster, clock=clock)
    return None if found is None else changelog_named(found, store, application_id)


def decided_manifest(
    admin: Admin, *, application_id: str, cluster: Cluster, clock: Clock
) -> bytes | None:
    """Return the manifest that was committed last; None if the application has not run.

    Does not wait for open transactions, but for the brokers.
    """
    topic = cuts_topic(application_id)
    if topic not in admin.describe_topics([topic]):
        return None
    log = ManifestLog(application_id, cluster, admin, clock)
    try:
        found = run_steps(log.decided_manifests(lambda: False))
    finally:
        run_steps(log.close())
    return found[-1] if found else None


def decoded(manifest: bytes, application_id: str = "") -> dict[str, Any]:
    """Return a manifest as plain data; raise RestoreError for a damaged or foreign one.

    See :func:`logstate.changelog.stored_manifest.decode_manifest`.
    """
    return decode_manifest(manifest, application_id)
