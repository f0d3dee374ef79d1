"""The reaction of the engine to every error code of the client and the brokers, as one table.

There are five reactions; exceptions by place are listed separately. A place is the operation:

- ``produce``: passing records to the client
- ``transaction``: their delivery, adding offsets, beginning and ending
- ``group``: being a member, fetching its partitions, reading committed offsets
- ``fetch``: reading changelogs, outside the group
- ``admin``: requests about topics and offsets

An unknown code of a newer broker or client is FATAL: an error that is not understood must not be
retried forever. Flags that the client sets on an error (fatal, retriable, the transaction must be
aborted) are handled by :mod:`logstate.kafka.faults` where they say more than the code.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, Literal, TypeAlias

from confluent_kafka import KafkaError

Place: TypeAlias = Literal["produce", "transaction", "group", "fetch", "admin"]


class Reaction(Enum):
    """The engine's reaction to an error."""

    RETRY = "retry"  # the same call again, for a bounded time
    REPLAY = "replay"  # abort the transaction and process its records again
    FENCED = "fenced"  # ... with a new producer, or as a new member of the group
    REFUSED = "refused"  # one record is the cause: the production handler decides
    FATAL = "fatal"  # stop cleanly: the engine cannot recover from it


_RETRY = """
    _BAD_MSG _FAIL _TRANSPORT _RESOLVE _ALL_BROKERS_DOWN _TIMED_OUT _TIMED_OUT_QUEUE _QUEUE_FULL
    _ISR_INSUFF _NODE_UPDATE _WAIT_COORD _UNKNOWN_GROUP _IN_PROGRESS _PREV_IN_PROGRESS
    _WAIT_CACHE _INTR _PARTIAL _RETRY _NOENT _STATE _UNKNOWN_BROKER _UNKNOWN_PARTITION
    _UNKNOWN_TOPIC _DESTROY_BROKER _OUTDATED _NOOP _PARTITION_EOF NO_ERROR _UNDERFLOW
    _ASSIGN_PARTITIONS _REVOKE_PARTITIONS _NO_OFFSET
    INVALID_MSG UNKNOWN_TOPIC_OR_PART LEADER_NOT_AVAILABLE NOT_LEADER_FOR_PARTITION
    REQUEST_TIMED_OUT BROKER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE STALE_CTRL_EPOCH NETWORK_EXCEPTION
    COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR NOT_ENOUGH_REPLICAS
    NOT_ENOUGH_REPLICAS_AFTER_APPEND NOT_CONTROLLER REBALANCE_IN_PROGRESS STALE_MEMBER_EPOCH
    CONCURRENT_TRANSACTIONS TRANSACTION_COORDINATOR_FENCED KAFKA_STORAGE_ERROR
    REASSIGNMENT_IN_PROGRESS FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH
    LISTENER_NOT_FOUND FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH STALE_BROKER_EPOCH
    OFFSET_NOT_AVAILABLE MEMBER_ID_REQUIRED PREFERRED_LEADER_NOT_AVAILABLE
    ELIGIBLE_LEADERS_NOT_AVAILABLE UNSTABLE_OFFSET_COMMIT THROTTLING_QUOTA_EXCEEDED
    UNKNOWN_TOPIC_ID INCONSISTENT_TOPIC_ID UNKNOWN_CONTROLLER_ID REBOOTSTRAP_REQUIRED
    OPERATION_NOT_ATTEMPTED UNKNOWN_SUBSCRIPTION_ID TELEMETRY_TOO_LARGE ELECTION_NOT_NEEDED
    NO_REASSIGNMENT_IN_PROGRESS
"""
_REPLAY = """
    _MSG_TIMED_OUT _PURGE_QUEUE _PURGE_INFLIGHT _GAPLESS_GUARANTEE _INCONSISTENT _CONFLICT
    _ASSIGNMENT_LOST _AUTO_OFFSET_RESET _LOG_TRUNCATION _APPLICATION
    UNKNOWN OFFSET_OUT_OF_RANGE ILLEGAL_GENERATION UNKNOWN_MEMBER_ID FENCED_MEMBER_EPOCH
    OUT_OF_ORDER_SEQUENCE_NUMBER DUPLICATE_SEQUENCE_NUMBER UNKNOWN_PRODUCER_ID
    TRANSACTION_ABORTABLE
"""
_FENCED = """
    _FENCED _FATAL _MAX_POLL_EXCEEDED _DESTROY
    PRODUCER_FENCED INVALID_PRODUCER_EPOCH INVALID_PRODUCER_ID_MAPPING INVALID_TXN_STATE
    UNRELEASED_INSTANCE_ID GROUP_ID_NOT_FOUND
"""
_REFUSED = """
    _INVALID_DIFFERENT_RECORD
    MSG_SIZE_TOO_LARGE INVALID_MSG_SIZE RECORD_LIST_TOO_LARGE INVALID_RECORD INVALID_TIMESTAMP
"""
_FATAL = """
    _BAD_COMPRESSION _CRIT_SYS_RESOURCE _FS _INVALID_ARG _SSL _EXISTING_SUBSCRIPTION
    _UNKNOWN_PROTOCOL _NOT_IMPLEMENTED _AUTHENTICATION _UNSUPPORTED_FEATURE _KEY_SERIALIZATION
    _VALUE_SERIALIZATION _KEY_DESERIALIZATION _VALUE_DESERIALIZATION _READ_ONLY _INVALID_TYPE
    _NOT_CONFIGURED
    OFFSET_METADATA_TOO_LARGE TOPIC_EXCEPTION INVALID_REQUIRED_ACKS INCONSISTENT_GROUP_PROTOCOL
    INVALID_GROUP_ID INVALID_SESSION_TIMEOUT INVALID_COMMIT_OFFSET_SIZE TOPIC_AUTHORIZATION_FAILED
    GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED UNSUPPORTED_SASL_MECHANISM
    ILLEGAL_SASL_STATE UNSUPPORTED_VERSION TOPIC_ALREADY_EXISTS INVALID_PARTITIONS
    INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT INVALID_CONFIG INVALID_REQUEST
    UNSUPPORTED_FOR_MESSAGE_FORMAT POLICY_VIOLATION INVALID_TRANSACTION_TIMEOUT
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED SECURITY_DISABLED LOG_DIR_NOT_FOUND
    SASL_AUTHENTICATION_FAILED DELEGATION_TOKEN_AUTH_DISABLED DELEGATION_TOKEN_NOT_FOUND
    DELEGATION_TOKEN_OWNER_MISMATCH DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    DELEGATION_TOKEN_AUTHORIZATION_FAILED DELEGATION_TOKEN_EXPIRED INVALID_PRINCIPAL_TYPE
    NON_EMPTY_GROUP TOPIC_DELETION_DISABLED UNSUPPORTED_COMPRESSION_TYPE GROUP_MAX_SIZE_REACHED
    FENCED_INSTANCE_ID GROUP_SUBSCRIBED_TO_TOPIC RESOURCE_NOT_FOUND DUPLICATE_RESOURCE
    UNACCEPTABLE_CREDENTIAL INCONSISTENT_VOTER_SET INVALID_UPDATE_VERSION FEATURE_UPDATE_FAILED
    PRINCIPAL_DESERIALIZATION_FAILURE UNSUPPORTED_ASSIGNOR MISMATCHED_ENDPOINT_TYPE
    UNSUPPORTED_ENDPOINT_TYPE INVALID_REGISTRATION INVALID_RECORD_STATE SHARE_SESSION_NOT_FOUND
    INVALID_SHARE_SESSION_EPOCH FENCED_STATE_EPOCH INVALID_VOTER_KEY DUPLICATE_VOTER
    VOTER_NOT_FOUND INVALID_REGULAR_EXPRESSION STREAMS_INVALID_TOPOLOGY
    STREAMS_INVALID_TOPOLOGY_EPOCH STREAMS_TOPOLOGY_FENCED SHARE_SESSION_LIMIT_REACHED
"""

#: Places where the reaction differs, and why.
_ELSEWHERE: Final[Mapping[Place, Mapping[Reaction, str]]] = {
    "produce": {
        # A topic or a partition that was chosen by a record's content.
        Reaction.REFUSED: "TOPIC_AUTHORIZATION_FAILED TOPIC_EXCEPTION _UNKNOWN_PARTITION",
    },
    "transaction": {
        # Partitions join a transaction with the first record for them.
        Reaction.REFUSED: "TOPIC_AUTHORIZATION_FAILED TOPIC_EXCEPTION",
        # A damaged batch after all retries; a member that is not the one that began the
        # transaction; a client that has lost track of its transaction.
        Reaction.REPLAY: "INVALID_MSG _BAD_MSG REBALANCE_IN_PROGRESS STALE_MEMBER_EPOCH _STATE"
        " GROUP_ID_NOT_FOUND",
    },
    "group": {
        # The client skips what it cannot read; continuing would silently lose records.
        Reaction.FATAL: "_BAD_MSG INVALID_MSG _UNDERFLOW MSG_SIZE_TOO_LARGE INVALID_RECORD",
        # The client joins again by itself, and reports lost partitions by a rebalance.
        Reaction.RETRY: "ILLEGAL_GENERATION UNKNOWN_MEMBER_ID FENCED_MEMBER_EPOCH _ASSIGNMENT_LOST",
        # Some brokers and clients return this to a member that was away for too long.
        Reaction.FENCED: "INVALID_REQUEST",
    },
    "fetch": {
        # A reader of logs is in no group; the client looks up the coordinator of its group anyway.
        Reaction.RETRY: "GROUP_AUTHORIZATION_FAILED",
        Reaction.FATAL: "_BAD_MSG INVALID_MSG _UNDERFLOW MSG_SIZE_TOO_LARGE INVALID_RECORD",
    },
    "admin": {
        # Another instance creates the same topics at the same time.
        Reaction.RETRY: "TOPIC_ALREADY_EXISTS",
    },
}


def _by_code() -> dict[int, Reaction]:
    table = {}
    for reaction, names in (
        (Reaction.RETRY, _RETRY),
        (Reaction.REPLAY, _REPLAY),
        (Reaction.FENCED, _FENCED),
        (Reaction.REFUSED, _REFUSED),
        (Reaction.FATAL, _FATAL),
    ):
        for name in names.split():
            code = _error_code(name)
            if code is not None:
                assert code not in table, name
                table[code] = reaction
    return table


def _error_code(name: str) -> int | None:
    """Return the number of an error; None if the installed client does not have it."""
    return getattr(KafkaError, name, None)


REACTIONS: Final[Mapping[int, Reaction]] = _by_code()
_AT: Final[Mapping[tuple[Place, int | None], Reaction]] = {
    (place, _error_code(name)): reaction
    for place, answers in _ELSEWHERE.items()
    for reaction, names in answers.items()
    for name in names.split()
}


def reaction_to(code: int, place: Place) -> Reaction:
    """Return the reaction to an error of this code at this place."""
    return _AT.get((place, code)) or REACTIONS.get(code, Reaction.FATAL)
