"""The engine's error for an error of the client: the table of codes, and what the client adds.

librdkafka marks errors by three flags. A fatal producer error of a live member is normal operation
(a stall longer than the transaction time-out), so it means "fenced": new producer, read committed
offsets again, replay. Only where replaying could never help (no permission, a wrong configuration,
a record that is too large) the table's answer is stronger than the flags.
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
_BY_HAND = (
    "One that is there already is taken as it is: have it made by whoever may (`logstate topics"
    " create --dry-run` lists all that an application needs)"
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


def translate_error(
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


# --- questions of readers -----------------------------------------------------------------------

_ABSENT = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)


def passes(exception: KafkaException) -> bool:
    """Whether it may be answered when it is asked again."""
    if native_error(exception).code() in _ABSENT:  # who writes waits for it, who reads does not
        return False
    return isinstance(translate_error(exception, "asking", "group"), RetriableError)


def refused(exception: KafkaException, config: Mapping[str, Any], what: str) -> LogstateError:
    """The error for a question that was refused, or that nobody answered."""
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


# --- topics that are not made -------------------------------------------------------------------


def not_made(
    topic: NewTopic, error: KafkaError, there: Collection[str], brokers: int
) -> BrokerError | TopicError:
    """The error for a topic that brokers refuse to make for good.

    ``there``: the topics that exist; ``brokers``: how many there are, 0 where that is not known.
    """
    why = name_conflict(topic.name, there)
    if why:
        return TopicError(why)
    text = (
        f"creating topic {topic.name!r} ({_count(topic.partitions, 'partition')},"
        f" {_copies(topic)}) failed: {error.str()} ({error.name()})"
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
            f"It was to have {_config(topic)}. Correct topic_config=, or changelog_config= of the"
            " store that it belongs to; brokers older than a setting do not know it"
        )
    if code == KafkaError.INVALID_PARTITIONS:
        return (
            "It has as many partitions as the topics that it is read with, or as repartition()"
            f" says. Ask for fewer there, or have the brokers' limit raised. {_BY_HAND}"
        )
    if code in NOT_ALLOWED:
        return f"{HOW_TO_ALLOW[0].upper()}{HOW_TO_ALLOW[1:]}. {_BY_HAND}"
    if code in (KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE):
        return (
            "The brokers are older than what was asked of them: those before 2.4 have no default"
            " of copies. Give replication_factor= with a number"
        )
    return f"The brokers' logs say more. {_BY_HAND}"


def _of_copies(topic: NewTopic, brokers: int) -> str:
    asked = topic.replication_factor
    have = f"the cluster has {_count(brokers, 'broker')}" if brokers else "there are fewer brokers"
    if asked < 0:
        return (
            "As many copies of each partition were asked for as is the brokers' default"
            f" (default.replication.factor), and {have}: give replication_factor= with at most as"
            " many, or correct that default"
        )
    most = f"at most {brokers}" if brokers else "fewer"
    return (
        f"{asked} copies of each partition were asked for, and {have}: give replication_factor="
        f" with {most}, or -1 for the brokers' default, or add brokers"
    )


def _of_name(topic: NewTopic) -> str:
    return (
        f"The name has {len(topic.name)} characters. Topics have 1 to 249 letters, digits, '.',"
        " '_' and '-': shorten the application_id, or the name of the store or operator that the"
        " topic is named after"
    )


def _copies(topic: NewTopic) -> str:
    if topic.replication_factor < 0:
        return "the brokers' default of copies"
    return f"replication factor {topic.replication_factor}"


def _config(topic: NewTopic) -> str:
    return ", ".join(f"{name}={value}" for name, value in topic.config.items()) or "no settings"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
