"""What a client error means for the engine: four answers, whatever the code.

librdkafka tells by three flags. Without any flag its documentation says: treat as fatal. A fatal
producer error of a live member is normal operation (a stall longer than the transaction time-out),
so it means "fenced": new producer, read committed offsets again, replay.
"""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from logstate.errors import (
    AbortableError,
    BrokerError,
    FencedError,
    ProductionError,
    RetriableError,
)

#: another member or a newer incarnation owns what we act for
_FENCED = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
    }
)
#: passing faults of requests outside transactions
_PASSING = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._WAIT_COORD,
        KafkaError._IN_PROGRESS,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        # a broker that restarted: what the client knows about leaders is old or too new
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
        # "no leaders found": a broker that restarts, or a topic that is being made
        KafkaError._NOENT,
        KafkaError._STATE,
    }
)
#: records that were not delivered in time, or given up: their transaction is, too
_UNDELIVERED = frozenset(
    {KafkaError._MSG_TIMED_OUT, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}
)
#: a record that no retry will ever deliver
_RECORD = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD})


def native_error(exc: KafkaException) -> KafkaError:
    """The KafkaError inside a client exception."""
    error = exc.args[0]
    assert isinstance(error, KafkaError), error
    return error


def translated(exc: KafkaException, doing: str) -> BrokerError | ProductionError:
    """The engine's error for a client exception raised while ``doing`` something."""
    error = native_error(exc)
    text = f"{doing} failed: {error.str()} ({error.name()})"
    if error.code() in _RECORD:
        return ProductionError(
            f"{text}; a record is larger than the topic or the producer allows:"
            " raise max.message.bytes of the topic and message.max.bytes of the client, or make it"
            " smaller"
        )
    if error.txn_requires_abort() or (error.code() in _UNDELIVERED and not error.fatal()):
        return AbortableError(text)
    if error.fatal() or error.code() in _FENCED:
        return FencedError(text)
    if error.retriable() or error.code() in _PASSING:
        return RetriableError(text)
    return BrokerError(f"{text}; the broker refused or the client is misconfigured")
