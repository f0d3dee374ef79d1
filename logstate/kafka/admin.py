"""The admin client: questions to the cluster, and changes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock
from typing import Any

import confluent_kafka
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.admin import NewTopic as NativeNewTopic

from logstate.contracts.clients import Committed, NewTopic, TopicDescription
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import BrokerError, RetriableError
from logstate.contracts.records import TopicPartition
from logstate.kafka.client_config import admin_client
from logstate.kafka.commit_without_members import commit_without_members
from logstate.kafka.faults import native_error, not_made, translate_error
from logstate.kafka.offset_metadata import read_committed

#: how long a start may wait for a broker before it fails with an error
REACH_LIMIT_S = 20.0
_REQUEST_S = 10.0
#: a response that takes longer does not show which transaction delays which
_QUICK_S = 1.0
#: settings of a consumer that reads committed offsets although a transaction could still change
#: them, and that never joins the group
_UNSTABLE = {
    "isolation.level": "read_uncommitted",
    "enable.auto.commit": False,
    "allow.auto.create.topics": False,
}


class KafkaAdmin:
    """The admin client of :class:`logstate.contracts.clients.Admin`.

    Transient faults are retried for ``reach_limit_s``, at most ``REACH_LIMIT_S``; then they are
    raised as RetriableError.
    """

    def __init__(self, config: Mapping[str, Any], *, reach_limit_s: float = REACH_LIMIT_S) -> None:
        self._reach_limit_s = min(reach_limit_s, REACH_LIMIT_S)
        self._bootstrap = config.get("bootstrap.servers")
        self._config = dict(config)
        self._reasons: list[str] = []
        on_error = _keep_reasons(self._reasons, config.get("error_cb"))
        self._admin: AdminClient = admin_client(config, error_cb=on_error)
        self._reader: Consumer | None = None
        #: several threads call it; it must not be closed during a call
        self._reading = Lock()

    def describe_topics(
        self, topics: Sequence[str], beginning: str | None = None
    ) -> dict[str, TopicDescription]:
        if beginning is not None:
            # The list contains only what this client may see; only those topics are described.
            there = self.topic_names()
            topics = sorted(n for n in there if n in topics or n.startswith(beginning))
        if not topics:
            return {}
        found = {}
        for topic, future in self._ask_until_answered(
            lambda: self._admin.describe_topics(
                TopicCollection(list(topics)), request_timeout=_REQUEST_S
            ),
            "describing topics",
            absent=KafkaError.UNKNOWN_TOPIC_OR_PART,
        ).items():
            if future is not None:
                found[topic] = TopicDescription(str(future.topic_id), len(future.partitions))
        return found

    def topic_names(self) -> list[str]:
        try:
            topics = self._admin.list_topics(timeout=_REQUEST_S).topics
        except KafkaException as exc:
            raise translate_error(exc, "listing topics") from exc
        return [name for name in topics if not name.startswith("__")]

    def create_topics(self, topics: Sequence[NewTopic]) -> set[str]:
        if not topics:
            return set()
        made = self._create_missing(topics)
        deadline = time.monotonic() + self._reach_limit_s
        again = time.monotonic() + _QUICK_S
        while left := self._without_leaders(topics):
            now = time.monotonic()
            if now > deadline:
                raise BrokerError(
                    f"topics {sorted(t.name for t in left)} were created but have no leaders after"
                    f" {self._reach_limit_s:.0f} s; check the brokers' logs"
                )
            if now > again:
                # Topics that existed may have been deleted since by the process that created them.
                if others := [topic for topic in left if topic.name not in made]:
                    made |= self._create_missing(others)
                again = time.monotonic() + _QUICK_S
            time.sleep(0.05)
        return made

    def _create_missing(self, topics: Sequence[NewTopic]) -> set[str]:
        """Create the missing topics; return the names of those that this call created."""
        native = [
            NativeNewTopic(t.name, t.partitions, t.replication_factor, config=dict(t.config))
            for t in topics
        ]
        by_name = {topic.name: topic for topic in topics}
        #: all responses: a request that is repeated may have created topics the first time
        rounds: list[dict[str, Future[Any]]] = []

        def ask() -> dict[str, Future[Any]]:
            rounds.append(self._admin.create_topics(native, request_timeout=_REQUEST_S))
            return rounds[-1]

        def refused(name: str, exc: KafkaException) -> Exception:
            error = translate_error(exc, f"creating topic {name!r}", "admin")
            return (
                error if isinstance(error, RetriableError) else self._not_made(by_name[name], exc)
            )

        self._ask_until_answered(
            ask, "creating topics", absent=KafkaError.TOPIC_ALREADY_EXISTS, refused=refused
        )
        answers = [answer for one in rounds for answer in one.items()]
        return {name for name, future in answers if future.done() and not future.exception()}

    def delete_topics(self, topics: Sequence[str]) -> None:
        if not topics:
            return
        self._ask_until_answered(
            lambda: self._admin.delete_topics(list(topics), request_timeout=_REQUEST_S),
            "deleting topics",
            absent=KafkaError.UNKNOWN_TOPIC_OR_PART,
        )
        self._wait_until_gone(topics)

    def topic_configs(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        if not topics:
            return {}
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        answers = self._ask_until_answered(
            lambda: self._admin.describe_configs(resources, request_timeout=_REQUEST_S),
            "reading topic configurations",
        )
        return {
            resource.name: {name: entry.value for name, entry in config.items()}
            for resource, config in answers.items()
        }

    def start_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return self._known_offsets(partitions, OffsetSpec.earliest())

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return self._known_offsets(partitions, OffsetSpec.latest())

    def stable_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return self._known_offsets(partitions, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)

    def offsets_at(
        self, partitions: Sequence[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, int]:
        found = self._offsets(partitions, OffsetSpec.for_timestamp(timestamp_ms))
        missing = [tp for tp, offset in found.items() if offset < 0]
        return {**found, **self.end_offsets(missing)}

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        native = [confluent_kafka.TopicPartition(t, p, o) for (t, p), o in before.items()]
        self._ask_until_answered(
            lambda: self._admin.delete_records(native, request_timeout=_REQUEST_S),
            "purging repartition records",
        )

    def committed_so_far(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Committed]:
        # Not with the admin client: its requests to a group's coordinator do not time out while the
        # connection is down, and abort the process with a failed assertion when it is up again.
        with self._reading:
            if self._reader is None:
                self._reader = Consumer({**self._config, **_UNSTABLE, "group.id": group_id})
            try:
                return read_committed(self._reader, partitions, _QUICK_S)
            except KafkaException as exc:
                raise translate_error(
                    exc, f"reading offsets of group {group_id!r}", "admin"
                ) from exc

    def commit_without_members(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        commit_without_members(self._config, group_id, offsets)

    def close(self) -> None:
        """Close the consumer; the admin client is released with its last reference."""
        with self._reading:
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    def _known_offsets(
        self,
        partitions: Sequence[TopicPartition],
        spec: OffsetSpec,
        # A restore target must include records that are not committed yet.
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, int]:
        """Return offsets. Raise RetriableError while a broker does not know one after a restart.

        It then responds without an error and without an offset, which the client shows as -1001.
        Used as an offset, this would mean that there is nothing to restore.
        """
        deadline = time.monotonic() + self._reach_limit_s
        while True:
            found = self._offsets(partitions, spec, isolation)
            missing = [str(tp) for tp, offset in found.items() if offset < 0]
            if not missing:
                return found
            if time.monotonic() > deadline:
                raise RetriableError(f"the brokers do not know the offsets of {missing}")
            time.sleep(0.1)
            self._refresh_metadata()

    def _offsets(
        self,
        partitions: Sequence[TopicPartition],
        spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        request = {confluent_kafka.TopicPartition(t, p): spec for t, p in partitions}
        answers = self._ask_until_answered(
            lambda: self._admin.list_offsets(
                request,
                isolation_level=isolation,
                request_timeout=_REQUEST_S,
            ),
            "reading log offsets",
        )
        return {
            TopicPartition(tp.topic, tp.partition): answer.offset for tp, answer in answers.items()
        }

    def _not_made(self, topic: NewTopic, exc: KafkaException) -> Exception:
        there, brokers = [], 0
        with suppress(KafkaException):  # facts about the cluster only help to explain the error
            found = self._admin.list_topics(timeout=_REQUEST_S)
            there, brokers = list(found.topics), len(found.brokers)
        return not_made(topic, native_error(exc), there, brokers)

    def _without_leaders(self, topics: Sequence[NewTopic]) -> list[NewTopic]:
        """Return the topics that cannot be used yet, according to one broker."""
        known = {}
        with suppress(KafkaException):  # brokers that are briefly unavailable
            known = self._admin.list_topics(timeout=_REQUEST_S).topics
        return [
            topic
            for topic in topics
            if topic.name not in known
            or len(known[topic.name].partitions) != topic.partitions
            or any(p.leader < 0 for p in known[topic.name].partitions.values())
        ]

    def _wait_until_gone(self, topics: Sequence[str]) -> None:
        """Wait for the deletion on all brokers, so that no later start finds an old topic."""
        deadline = time.monotonic() + self._reach_limit_s
        while left := sorted(self.describe_topics(topics)):
            if time.monotonic() > deadline:
                raise RetriableError(
                    f"topics {left} were deleted and still exist after"
                    f" {self._reach_limit_s:.0f} s; does a client write to them, so that brokers"
                    " create them again (auto.create.topics.enable)?"
                )
            time.sleep(0.05)

    def _ask_until_answered(
        self,
        ask: Callable[[], Mapping[Any, Future[Any]]],
        doing: str,
        *,
        absent: int | None = None,
        refused: Callable[[str, KafkaException], Exception] | None = None,
    ) -> dict[Any, Any]:
        """Repeat ``ask`` until every part has a result; an error code ``absent`` means None.

        ``refused(name, exception)``: returns the error for a part that the client refused.
        """

        def default_error(name: str, exc: KafkaException) -> Exception:
            return translate_error(exc, f"{doing} ({name})", "admin")

        deadline = time.monotonic() + self._reach_limit_s
        self._reasons.clear()
        while True:
            try:
                return {
                    one: _answer(one, f, doing, absent, refused or default_error)
                    for one, f in ask().items()
                }
            except RetriableError as exc:
                self._admin.poll(0)
                if time.monotonic() > deadline:
                    if _is_of_brokers(exc.__cause__):
                        raise RetriableError(
                            f"the brokers at {self._bootstrap} did not do it within"
                            f" {self._reach_limit_s:.0f} s: {text_of(exc)}."
                            " The request was repeated several times;"
                            " their logs may contain the reason"
                        ) from exc
                    reason = f" ({self._reasons[-1]})" if self._reasons else ""
                    raise RetriableError(
                        f"no answer from the brokers at {self._bootstrap} within"
                        f" {self._reach_limit_s:.0f} s while {doing}: {exc}{reason}. Check that the"
                        " brokers run, that bootstrap names their address as seen from here, and"
                        " the security settings in kafka={...}"
                    ) from exc
                time.sleep(0.1)
                self._refresh_metadata()

    def _refresh_metadata(self) -> None:
        """Refresh the leaders: after a restart of a broker the client would use old epochs."""
        with suppress(KafkaException):
            self._admin.list_topics(timeout=1.0)


def _keep_reasons(
    reasons: list[str], on_error: Callable[[KafkaError], object] | None
) -> Callable[[KafkaError], None]:
    """Return an ``error_cb`` that keeps the last reason, and calls ``on_error``.

    It must not refer to the client, which is released with its last reference.
    """

    def keep(error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            reasons[:] = [error.str()]
        if on_error is not None:
            on_error(error)

    return keep


def _is_of_brokers(cause: BaseException | None) -> bool:
    """Return whether a broker sent this error; the client's own codes are negative."""
    return isinstance(cause, KafkaException) and int(native_error(cause).code()) > 0


def _answer(
    subject: Any,
    future: Future[Any],
    doing: str,
    absent: int | None,
    error_of: Callable[[str, KafkaException], Exception],
) -> Any:
    try:
        return future.result(_REQUEST_S + 5)
    except TimeoutError as exc:
        raise RetriableError(f"{doing} timed out") from exc
    except KafkaException as exc:
        if absent is not None and native_error(exc).code() == absent:
            return None
        name = getattr(subject, "name", None) or getattr(subject, "topic", None) or subject
        raise error_of(name, exc) from exc
