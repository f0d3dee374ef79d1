"""The newest records of the application's topics, read from the brokers when somebody looks.

For the web page. Each read has separate clients and a thread that nothing waits for longer than
the time-out: a client may wait a minute for brokers that do not respond. Only topics of
the application are read: those of its manifest, and the dead letter topic.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeVar

import msgspec

from logstate.contracts.clients import Admin, Cluster, LogConsumer
from logstate.contracts.clock import Clock
from logstate.contracts.errors import BrokerError, TopicError
from logstate.contracts.records import FetchedRecord, TopicPartition
from logstate.task.error_handlers import letter_error
from logstate.topics.displayed_records import RecordReader, newest_records, reader_of_topic
from logstate.topics.manifest_changes import Manifest
from logstate.topics.manifest_log import decided_manifest, decoded

T = TypeVar("T")

#: concurrent reads; a further one is refused
_READS: Final = 4
#: bytes that the client fetches ahead, and that one read looks through
_QUEUE_BYTES: Final = 1024 * 1024
_BYTES_MAX: Final = 32 * 1024 * 1024
_BATCH: Final = 1_000
_POLL_S: Final = 0.2
#: a value with more characters is cut
_TEXT_MAX: Final = 10_000
#: part of the time-out that a read may take; the rest is for the last request to the brokers
_SHARE: Final = 0.7


class TopicReads:
    """Reads records of an application's topics; usable from any thread."""

    def __init__(
        self, application_id: str, cluster: Cluster, clock: Clock, dead_letter_topic: str | None
    ) -> None:
        self._id = application_id
        self._cluster = cluster
        self._clock = clock
        self._letters = dead_letter_topic
        self._free = threading.Semaphore(_READS)

    def topics(self, timeout_s: float) -> list[dict[str, str]]:
        """Return name and kind of each topic: input, output, repartition, changelog, dead letters.

        Raises TopicError before the first start, BrokerError without a response in time.
        """
        return self._call_with_timeout(
            timeout_s, lambda admin: _listed(self._topics(self._manifest(admin)))
        )

    def newest(self, topic: str, limit: int, timeout_s: float) -> dict[str, Any]:
        """Return the last ``limit`` committed records of a topic, the newest first.

        ``is_complete`` is False if time or size ended the search. Raises TopicError for a topic
        that is not the application's, BrokerError without a response in time.
        """
        end_s = time.monotonic() + _SHARE * timeout_s
        return self._call_with_timeout(
            timeout_s, lambda admin: self._newest(admin, topic, limit, end_s)
        )

    # ------------------------------------------------------------------ on the thread

    def _manifest(self, admin: Admin) -> Manifest:
        found = decided_manifest(
            admin, application_id=self._id, cluster=self._cluster, clock=self._clock
        )
        if found is None:
            raise TopicError(
                f"application {self._id!r} has no manifest on these brokers: it has not started"
                " yet, or was reset. Start it, and try again"
            )
        return decoded(found, self._id)

    def _topics(self, manifest: Manifest) -> dict[str, str]:
        kinds: dict[str, str] = dict.fromkeys(manifest.get("formats", ()), "output")
        kinds |= dict.fromkeys(manifest.get("inputs", ()), "input")
        kinds |= dict.fromkeys(manifest.get("topics", ()), "repartition")
        for entry in manifest["stores"].values():
            if (changelog := entry["changelog_topic"]) is not None:
                kinds.setdefault(changelog, "changelog")
        if self._letters is not None:
            kinds[self._letters] = "dead letters"
        return kinds

    def _newest(self, admin: Admin, topic: str, limit: int, end_s: float) -> dict[str, Any]:
        manifest = self._manifest(admin)
        known = self._topics(manifest)
        if topic not in known:
            raise TopicError(
                f"application {self._id!r} has no topic {topic!r:.100}; its topics are"
                f" {', '.join(sorted(known))}"
            )
        described = admin.describe_topics([topic]).get(topic)
        if described is None:
            raise TopicError(f"topic {topic!r} does not exist")
        partitions = [TopicPartition(topic, number) for number in range(described.partitions)]
        ends = admin.stable_offsets(partitions)
        starts = admin.start_offsets(partitions)
        scan = _Scan(self._cluster.log_consumer(queue_bytes=_QUEUE_BYTES), end_s)
        try:
            bounds = {tp: (starts[tp], max(starts[tp], ends[tp])) for tp in partitions}
            found = newest_records(bounds, limit, scan.read)
        finally:
            scan.close()
        display = _Display(manifest, topic, described.partitions)
        return {
            "topic": topic,
            "kind": known[topic],
            "partitions": described.partitions,
            "records": [display.shown(record) for record in reversed(found)],
            "is_complete": scan.is_complete,
        }

    # ------------------------------------------------------------------ on the caller's thread

    def _call_with_timeout(self, timeout_s: float, check: Callable[[Admin], T]) -> T:
        if not self._free.acquire(blocking=False):
            raise BrokerError(f"{_READS} reads of topics are in progress: try again")
        result: Future[T] = Future()

        def run() -> None:
            try:
                admin = self._cluster.admin()
                try:
                    result.set_result(check(admin))
                finally:
                    admin.close()
            except BaseException as error:  # noqa: BLE001  raised again where it was asked for
                if not result.done():
                    result.set_exception(error)
            finally:
                self._free.release()

        # A daemon thread: a client that waits for brokers must not delay the end of the process.
        threading.Thread(target=run, name="logstate-topics", daemon=True).start()
        try:
            return result.result(timeout_s)
        except TimeoutError:
            if result.done():
                raise
            raise BrokerError(
                f"the brokers did not answer within {timeout_s:g} s. Are they reachable from this"
                " instance? Its log has the client's messages"
            ) from None


class _Scan:
    """Reads ranges of offsets until their ends, the time, or the largest size."""

    def __init__(self, consumer: LogConsumer, end_s: float) -> None:
        self._consumer = consumer
        self._end_s = end_s
        self._bytes = 0
        self.is_complete = True

    def read(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> Iterator[FetchedRecord]:
        """Yield the records of the ranges, each partition's in the order of offsets."""
        left = {tp: end for tp, (start, end) in ranges.items() if start < end}
        self._consumer.assign({tp: ranges[tp][0] for tp in left})
        while left:
            if time.monotonic() > self._end_s or self._bytes > _BYTES_MAX:
                self.is_complete = False
                return
            polled = self._consumer.poll(_BATCH, _POLL_S)
            for partition, records in polled.records.items():
                for record in records:
                    if (record.offset() or 0) < ranges[partition][1]:
                        self._bytes += len(record.key() or b"") + len(record.value() or b"")
                        yield record
            # Only markers may be left before the end. Retention may delete the rest meanwhile,
            # and an unreadable batch is not shown.
            gone = {**polled.out_of_range, **polled.unreadable, **dict(polled.ends)}
            left = {
                tp: end
                for tp, end in left.items()
                if tp not in gone and (self._consumer.position(tp) or 0) < end
            }

    def close(self) -> None:
        """Release the consumer."""
        self._consumer.close()


class _Display:
    """Records as JSON data; dead letters in the formats of the topics that they were read from."""

    def __init__(self, manifest: Manifest, topic: str, partitions: int) -> None:
        self._manifest = manifest
        self._partitions = partitions
        self._topic = topic
        self._readers: dict[str, RecordReader] = {}

    def shown(self, record: FetchedRecord) -> dict[str, Any]:
        """Return a record, with the error of a dead letter."""
        error = letter_error(record.headers() or ())
        found = self._reader((error or {}).get("topic") or self._topic).shown(record)
        shown = found.as_plain_data()
        for name in ("key", "value"):
            shown[name], text = _truncated(shown[name])
            shown[f"{name}_format"] += text
        return shown if error is None else {**shown, "error": error}

    def _reader(self, topic: str) -> RecordReader:
        found = self._readers.get(topic)
        if found is None:
            found = reader_of_topic(self._manifest, topic, self._partitions)
            self._readers[topic] = found
        return found


def _listed(kinds: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "kind": kind} for name, kind in sorted(kinds.items())]


def _truncated(value: Any) -> tuple[Any, str]:
    """Return a value that JSON can hold, and a remark if it is cut."""
    try:
        text = msgspec.json.encode(value).decode()
    except Exception:  # noqa: BLE001  such as lone surrogates, which JSON as ASCII can write
        value = text = ascii(value)
    if len(text) <= _TEXT_MAX:
        return value, ""
    return f"{text[:_TEXT_MAX]}…", f", the first {_TEXT_MAX} of {len(text)} characters"
