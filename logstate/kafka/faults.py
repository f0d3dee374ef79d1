"""Translate an error of the client into the engine's error, by the table of codes and flags.

librdkafka marks errors by three flags. A fatal producer error of a live member is normal operation
(a stall longer than the transaction time-out), so it means "fenced": create a new producer, read
committed offsets again, replay. The table overrides the flags only where replaying can never help
(no permission, a wrong configuration, a record that is too large).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import (
    AbortableError,
    BrokerError,
    FencedError,
    LogstateError,
    ProductionError,
    RefusedError,
    RetriableError,
    TopicError,
)
from logstate.contracts.topic_names import name_conflict
from logstate.kafka.error_classes import REACTIONS, Place, Reaction, reaction_to


def native_error(exc: KafkaException) -> KafkaError:
    """Return the KafkaError inside a client exception."""
    error = exc.args[0]
    assert isinstance(error, KafkaError), error
    return error


def cause_of(exc: KafkaException | SystemError) -> KafkaException:
    """Return the client's exception; raise a SystemError again if it does not contain one.

    A client that becomes unusable raises in its own callback; if a delivery report follows in the
    same call, the interpreter raises a SystemError for both, or for the lost exception.
    """
    if isinstance(exc, KafkaException):
        return exc
    if isinstance(exc.__cause__, KafkaException):
        return exc.__cause__
    if _LOST in str(exc):
        return KafkaException(KafkaError(KafkaError._FATAL, f"the client is unusable: {exc}", True))
    raise exc


#: text of the interpreter if a call failed without a known exception
_LOST = "without setting an exception"
#: an authorizer of the brokers refused
NOT_ALLOWED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_BY_HAND = (
    "An existing topic is used unchanged: have it created by someone who may (`logstate topics"
    " create --dry-run` lists all that an application needs)"
)
HOW_TO_ALLOW = (
    "the principal of this client is not allowed to. `logstate acls` lists the permissions that"
    " an application needs"
)


def underlying_code(error: KafkaError) -> int:
    """Return the code that made a client unusable, which may be known from its text only."""
    if error.code() == KafkaError._FATAL:
        text = error.str()
        for code in REACTIONS:
            if code not in (KafkaError._FATAL, KafkaError.NO_ERROR, KafkaError.UNKNOWN) and (
                KafkaError(code).str() in text
            ):
                return code
    return error.code()


def translate_error(
    exc: KafkaException, doing: str, place: Place = "transaction"
) -> BrokerError | ProductionError:
    """Return the engine's error for a client exception raised while ``doing`` something."""
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
    return BrokerError(f"{text}; this version does not know that error")


def _why_refused(code: int) -> str:
    if code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TOPIC_EXCEPTION):
        return (
            "an output topic has an invalid name, or the principal may not write to"
            " it, or may not read one whose offsets are committed: correct the name, or grant what"
            " `logstate acls` lists"
        )
    if code == KafkaError._UNKNOWN_PARTITION:
        return "the topic has fewer partitions than the partitioner uses: correct the partitioner"
    if code == KafkaError.INVALID_TIMESTAMP:
        return "its time is out of the range that the topic's message.timestamp.* settings allow"
    return (
        "a record is larger than the topic or the producer allows, or has no key where the topic is"
        " compacted: raise max.message.bytes of the topic and message.max.bytes of the client, or"
        " make it smaller"
    )


# --- requests of readers ------------------------------------------------------------------------

_ABSENT = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)


def passes(exception: KafkaException) -> bool:
    """Return whether a retry may succeed."""
    if native_error(exception).code() in _ABSENT:  # a writer waits for it, a reader does not
        return False
    return isinstance(translate_error(exception, "asking", "group"), RetriableError)


def refused(exception: KafkaException, config: Mapping[str, Any], what: str) -> LogstateError:
    """Return the error for a request that was refused, or that got no response."""
    error, where = native_error(exception), config.get("bootstrap.servers")
    if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return TopicError(
            f"{what}: there is no such topic or partition on {where}; is the name right, and the"
            " cluster?"
        )
    if passes(exception):
        return BrokerError(
            f"the brokers at {where} do not answer when they are asked for {what} ({error.str()});"
            " are they up and reachable from this machine?"
        )
    why = HOW_TO_ALLOW if error.code() in NOT_ALLOWED else f"the brokers at {where} refused it"
    return BrokerError(f"asking for {what} failed: {error.str()}; {why}")


# --- topics that cannot be created --------------------------------------------------------------


def not_made(
    topic: NewTopic, error: KafkaError, there: Collection[str], brokers: int
) -> BrokerError | TopicError:
    """Return the error for a topic that brokers permanently refuse to create.

    ``there``: the topics that exist; ``brokers``: their number, 0 if it is not known.
    """
    why = name_conflict(topic.name, there)
    if why:
        return TopicError(why)
    text = (
        f"creating topic {topic.name!r} ({_counted(topic.partitions, 'partition')},"
        f" {_replication_text(topic)}) failed: {error.str()} ({error.name()})"
    )
    if error.code() == KafkaError.TOPIC_EXCEPTION:
        return TopicError(f"{text}. {_of_name(topic)}")
    return BrokerError(f"{text}. {_remedy(topic, error.code(), brokers)}")


def _remedy(topic: NewTopic, code: int, brokers: int) -> str:
    if code == KafkaError.INVALID_REPLICATION_FACTOR:
        return _of_copies(topic, brokers)
    if code == KafkaError.POLICY_VIOLATION:
        return (
            "The brokers have a policy for new topics (create.topic.policy.class.name), and this"
            f" one, with {_config(topic)}, does not follow it. Follow it by replication_factor=,"
            f" topic_config= or a store's changelog_config=. {_BY_HAND}"
        )
    if code in (KafkaError.INVALID_CONFIG, KafkaError.INVALID_REQUEST):
        return (
            f"It needs {_config(topic)}. Correct topic_config=, or changelog_config= of the"
            " store that it belongs to; older brokers do not have all settings"
        )
    if code == KafkaError.INVALID_PARTITIONS:
        return (
            "It has as many partitions as its co-partitioned topics, or as repartition()"
            f" says. Use fewer there, or have the brokers' limit raised. {_BY_HAND}"
        )
    if code in NOT_ALLOWED:
        return f"{HOW_TO_ALLOW[0].upper()}{HOW_TO_ALLOW[1:]}. {_BY_HAND}"
    if code in (KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE):
        return (
            "The brokers do not support the request: those before 2.4 have no default"
            " number of replicas. Give replication_factor= with a number"
        )
    return f"The brokers' logs may contain the reason. {_BY_HAND}"


def _of_copies(topic: NewTopic, brokers: int) -> str:
    asked = topic.replication_factor
    have = (
        f"the cluster has {_counted(brokers, 'broker')}" if brokers else "there are fewer brokers"
    )
    if asked < 0:
        return (
            "The brokers' default number of replicas was requested"
            f" (default.replication.factor), and {have}: give replication_factor= with at most as"
            " many, or correct that default"
        )
    most = f"at most {brokers}" if brokers else "fewer"
    return (
        f"{asked} replicas of each partition were requested, and {have}: give replication_factor="
        f" with {most}, or -1 for the brokers' default, or add brokers"
    )


def _of_name(topic: NewTopic) -> str:
    return (
        f"The name has {len(topic.name)} characters. Topic names have 1 to 249 letters, digits,"
        " '.', '_' and '-': shorten the application_id, or the name of the store or operator that"
        " the topic is named after"
    )


def _replication_text(topic: NewTopic) -> str:
    if topic.replication_factor < 0:
        return "the brokers' default number of replicas"
    return f"replication factor {topic.replication_factor}"


def _config(topic: NewTopic) -> str:
    return ", ".join(f"{name}={value}" for name, value in topic.config.items()) or "no settings"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
