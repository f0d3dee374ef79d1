"""The engine's error for an error of the client: the table of codes, and what the client adds.

librdkafka marks errors by three flags. A fatal producer error of a live member is normal operation
(a stall longer than the transaction time-out), so it means "fenced": new producer, read committed
offsets again, replay. Only where replaying could never help (no permission, a wrong configuration,
a record that is too large) the table's answer is stronger than the flags.
"""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from logstate.contracts.errors import (
    AbortableError,
    BrokerError,
    FencedError,
    ProductionError,
    RefusedError,
    RetriableError,
)
from logstate.kafka.error_classes import REACTIONS, Place, Reaction, reaction_to


def native_error(exc: KafkaException) -> KafkaError:
    """The KafkaError inside a client exception."""
    error = exc.args[0]
    assert isinstance(error, KafkaError), error
    return error


def told_by(exc: KafkaException | SystemError) -> KafkaException:
    """What the client said; raises a SystemError again that says nothing of it.

    A client that becomes unusable raises so from a callback of its own; where a delivery report
    follows in the same call, the interpreter makes a SystemError of both, or of what was lost.
    """
    if isinstance(exc, KafkaException):
        return exc
    if isinstance(exc.__cause__, KafkaException):
        return exc.__cause__
    if _LOST in str(exc):
        return KafkaException(KafkaError(KafkaError._FATAL, f"the client is unusable: {exc}", True))
    raise exc


#: how the interpreter says that a call has failed and not why
_LOST = "without setting an exception"
#: an authorizer of the brokers says no
NOT_ALLOWED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
HOW_TO_ALLOW = (
    "the principal that this client logs in as is not allowed to. `logstate acls` lists what an"
    " application has to be allowed"
)


def underlying_code(error: KafkaError) -> int:
    """The code that made a client unusable, where it tells so by its text only."""
    if error.code() == KafkaError._FATAL:
        text = error.str()
        for code in REACTIONS:
            if code not in (KafkaError._FATAL, KafkaError.NO_ERROR, KafkaError.UNKNOWN) and (
                KafkaError(code).str() in text
            ):
                return code
    return error.code()


def translated(
    exc: KafkaException, doing: str, place: Place = "transaction"
) -> BrokerError | ProductionError:
    """The engine's error for a client exception raised while ``doing`` something."""
    error = native_error(exc)
    text = f"{doing} failed: {error.str()} ({error.name()})"
    code = underlying_code(error)
    reaction = reaction_to(code, place)
    if reaction is Reaction.REFUSED:
        return RefusedError(f"{text}; {_why_refused(code)}")
    if reaction is Reaction.FATAL and code in NOT_ALLOWED:
        return BrokerError(f"{text}; {HOW_TO_ALLOW}")
    if reaction is Reaction.FATAL and code in REACTIONS:
        return BrokerError(f"{text}; the broker refused or the client is misconfigured")
    if error.txn_requires_abort():
        return AbortableError(text)
    if error.fatal() or reaction is Reaction.FENCED:
        return FencedError(text)
    if reaction is Reaction.REPLAY:
        return AbortableError(text)
    if error.retriable() or reaction is Reaction.RETRY:
        return RetriableError(text)
    return BrokerError(f"{text}; this version does not know what that means")


def _why_refused(code: int) -> str:
    if code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TOPIC_EXCEPTION):
        return (
            "a topic that is written to has an impossible name, or the principal may not write to"
            " it, or may not read one whose offsets are committed: correct the name, or grant what"
            " `logstate acls` lists"
        )
    if code == KafkaError._UNKNOWN_PARTITION:
        return "the topic has fewer partitions than the partitioner thinks: correct the partitioner"
    if code == KafkaError.INVALID_TIMESTAMP:
        return "its time is out of the range that the topic's message.timestamp.* settings allow"
    return (
        "a record is larger than the topic or the producer allows, or has no key where the topic is"
        " compacted: raise max.message.bytes of the topic and message.max.bytes of the client, or"
        " make it smaller"
    )
