"""Read the committed offsets of a group from outside of it.

How it works: the offsets that a transaction commits are visible once it has ended. While one is
pending the group responds "unstable": for milliseconds during a commit, and for the transaction's
whole time-out if its owner died between sending the offsets and the commit. So a reader waits up to
0.6 s for a stable response, and then takes the offsets before the pending ones: those of the
previous commit, whose snapshot is complete and valid until the next commit.

Invariants: the reader joins no group and commits nothing; it sees the offsets of one transaction
together or not at all, in either response, because the coordinator applies them at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import confluent_kafka

from logstate.contracts.clients import Committed
from logstate.contracts.errors import LogstateError
from logstate.contracts.records import TopicPartition
from logstate.kafka.faults import passes, refused
from logstate.kafka.log_reader import CONSUMER_CONFIG, QUIET
from logstate.kafka.offset_metadata import read_committed

_REQUEST_SECONDS = 30.0
_SHORTEST_WAIT_SECONDS = 0.1
#: how long to wait for a pending commit, connecting included; one takes milliseconds
_STABLE_SECONDS = 0.6
#: between two requests
_PAUSE_SECONDS = 0.02


def committed_offsets(
    config: Mapping[str, Any], group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Committed]:
    """Return what the group committed for the partitions, with metadata, in one response.

    Offsets that one transaction committed for several partitions are seen together or not at all;
    those of one that is still pending after 0.6 s are not seen. Partitions without committed offset
    are left out.

    Raises BrokerError if no broker responds, or the group may not be read.
    """
    wanted = list(partitions)
    try:
        found = _offsets(config, group, wanted, "read_committed", _STABLE_SECONDS)
    except confluent_kafka.KafkaException as exception:
        if not passes(exception):
            raise _refused(exception, config, group) from exception
        try:
            found = _offsets(config, group, wanted, "read_uncommitted", _REQUEST_SECONDS)
        except confluent_kafka.KafkaException as refusal:
            raise _refused(refusal, config, group) from refusal
    return {tp: one for tp, one in found.items() if one.offset is not None}


class StableOffsets:
    """Reads the committed offsets of one group repeatedly with one client."""

    def __init__(self, config: Mapping[str, Any], group: str) -> None:
        self._config, self._group = config, group
        self._consumer = confluent_kafka.Consumer(_consumer_config(config, group, "read_committed"))

    def of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, str]]:
        """Return offset and metadata of partitions that have some.

        Returns nothing if a transaction could still change one of them. Raises BrokerError.
        """
        try:
            found = read_committed(self._consumer, list(partitions), _STABLE_SECONDS)
        except confluent_kafka.KafkaException as exception:
            if passes(exception):
                return {}
            raise _refused(exception, self._config, self._group) from exception
        return {tp: (c.offset, c.metadata) for tp, c in found.items() if c.offset is not None}

    def close(self) -> None:
        """Release the client."""
        self._consumer.close()


def _consumer_config(config: Mapping[str, Any], group: str, isolation: str) -> dict[str, Any]:
    own = {"group.id": group, "isolation.level": isolation}
    return {**QUIET, **config, **CONSUMER_CONFIG, **own}


def _offsets(
    config: Mapping[str, Any],
    group: str,
    partitions: list[TopicPartition],
    isolation_level: str,
    seconds: float,
) -> dict[TopicPartition, Committed]:
    """Return the offsets; with ``read_committed``, wait for pending ones."""
    # With a consumer that joins nothing, never with the admin client: if the group's coordinator is
    # not known, has moved or restarts, that aborts the process (librdkafka issues 5040, 3663).
    consumer = confluent_kafka.Consumer(_consumer_config(config, group, isolation_level))
    deadline = time.monotonic() + seconds
    try:
        while True:
            try:
                left = max(_SHORTEST_WAIT_SECONDS, deadline - time.monotonic())
                return read_committed(consumer, partitions, left)
            except confluent_kafka.KafkaException as exception:
                if time.monotonic() >= deadline or not passes(exception):
                    raise
            time.sleep(_PAUSE_SECONDS)
    finally:
        consumer.close()


def _refused(
    exception: confluent_kafka.KafkaException, config: Mapping[str, Any], group: str
) -> LogstateError:
    return refused(exception, config, f"the committed offsets of group {group!r}")
