"""Every exception the library raises on purpose.

::

    LogstateError
    ├── ConfigError             your configuration; all problems are listed at once
    ├── TopologyError           your graph; names the user's file and line
    ├── SerdeError              no serde, or a value that its serde cannot encode
    │   └── DeserializationError   bytes that do not decode; names topic, partition, offset
    ├── ProcessingError         a user's function raised; names node and record
    ├── WrongThreadError        a processor's context was used on another thread than its task's
    ├── ProductionError         a record could not be encoded or delivered
    │   └── RefusedError           the broker or the client refuses what was sent, for good
    ├── TopicError              a topic is missing or has the wrong shape
    │   └── TopicsChangedError  topics changed meanwhile: a worker begins again with those there are
    ├── UpgradeError            the topology would read what is stored as something else
    ├── BrokerError             the brokers cannot be reached or refuse
    │   ├── FencedError         another owner took over: drop the tasks, rejoin (retried inside)
    │   │   └── LostMemberError    this group member is unusable: another joins (retried inside)
    │   │       └── ForeignGroupError  members of another kind have the group (awaited inside)
    │   ├── MembersLiveError    a group has members, and what is wanted needs one without
    │   ├── AbortableError      this transaction must be aborted and replayed (retried inside)
    │   │   └── OutOfRangeError    records that were to be read are gone (judged inside)
    │   └── RetriableError      a passing fault: the same call may succeed (retried inside)
    ├── RegistryError           the schema registry cannot be reached or refuses; no record's fault
    ├── StateDirectoryError     the local directory is locked, unwritable or foreign
    │   └── DirectoryInUseError    a task's directory is open elsewhere (waited for inside)
    ├── StoreError              a store failed
    │   ├── StoreCorruptedError    the local copy is unusable: rebuilt from the changelog
    │   └── StoreAccessError       it was asked for what it cannot do, or by somebody who has none
    │       ├── StoreMethodError       this kind of store has no such method; an AttributeError
    │       ├── StoreArgumentError     a key, time or partition of a query has another type
    │       └── StoreUnavailableError  a query cannot be answered here or now; says where or when
    ├── RestoreError            the changelog contradicts the committed position
    └── SnapshotError           the tasks did not cut together in time

Messages say what happened; what was found; the likely cause; what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from logstate.contracts.compatibility import Change

#: what msgspec raises about bytes of others: its own errors and that of text that is no UTF-8 have
#: ValueError in common, and data without a type may be nested deeper than Python goes
UNDECODABLE = (ValueError, RecursionError)


class LogstateError(Exception):
    """Root of the tree: ``except LogstateError`` catches all the library raises on purpose."""


class ConfigError(LogstateError):
    """The configuration is wrong. ``problems`` lists every one that was found."""

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        if len(self.problems) == 1:
            super().__init__(self.problems[0])
        else:
            lines = "".join(f"\n  {i}. {p}" for i, p in enumerate(self.problems, 1))
            super().__init__(f"{len(self.problems)} problems with the configuration:{lines}")


def check(*rules: Iterable[str]) -> None:
    """Raises ConfigError with every problem that there is, of all rules together."""
    problems = list(chain.from_iterable(rules))
    if problems:
        raise ConfigError(problems)


class TopologyError(LogstateError):
    """The graph is wrong. ``declared_at`` is the user's ``file:line`` where it is known."""

    def __init__(self, message: str, *, declared_at: str | None = None) -> None:
        self.declared_at = declared_at
        super().__init__(f"{message} (declared at {declared_at})" if declared_at else message)


class SerdeError(LogstateError):
    """There is no serde for a type, or a value does not fit its serde."""


class RecordError(LogstateError):
    """An error about one record; carries its coordinates as attributes."""

    def __init__(
        self,
        message: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        task: str | None = None,
        node: str | None = None,
        function: str | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.task = task
        self.node = node
        self.function = function
        super().__init__(message)


class DeserializationError(SerdeError, RecordError):
    """Bytes on a topic do not decode with the declared serde. Nothing past it is committed."""


class UnreadableBatchError(LogstateError):
    """The client cannot read a batch of records. It is the cause of a DeserializationError."""


class ProcessingError(RecordError):
    """A user's function raised while a record was processed. Nothing past it is committed."""


class WrongThreadError(LogstateError, RuntimeError):
    """A processor's context, or one of its stores, was used on another thread than its task's.

    ``task`` and ``node`` say whose. The call did nothing; if it would have changed something, the
    application also stops with a ProcessingError before its next commit.
    """

    def __init__(self, message: str, *, task: str, node: str) -> None:
        self.task = task
        self.node = node
        super().__init__(message)


class ProductionError(RecordError):
    """A record could not be encoded or delivered, for example because it is too large."""


class RefusedError(ProductionError):
    """Something in the open transaction is refused for good; no retry will deliver it.

    Which record caused it is found by a replay, where a handler may skip it.
    """


class TopicError(LogstateError):
    """A topic is missing, or its partition count or configuration does not fit."""


class TopicsChangedError(TopicError):
    """The topics are not those any more that a worker began with: another one begins, with these.

    Its start reads what is new, or refuses and says what to do.
    """


class UpgradeError(LogstateError):
    """The topology does not fit what is stored. ``changes`` lists every difference.

    Raised before a record is read or a row is touched; nothing was changed.
    """

    def __init__(self, message: str, changes: Sequence[Change] = ()) -> None:
        self.changes = tuple(changes)
        super().__init__(message)


class BrokerError(LogstateError):
    """The brokers cannot be reached, or refuse for a reason that retrying does not mend."""


class FencedError(BrokerError):
    """Another member owns the partitions or the transactional id now: drop the tasks, rejoin."""


class LostMemberError(FencedError):
    """The consumer of the group can never be used again: a new one joins in its place."""


class ForeignGroupError(LostMemberError):
    """The group is not one that a member of this kind can join: the JVM library has it, or had."""


class MembersLiveError(BrokerError):
    """The group has members, and what was asked for needs it to have none."""


class AbortableError(BrokerError):
    """The open transaction must be aborted; its records are read and processed again."""


class RegistryError(LogstateError):
    """The schema registry cannot be reached or refuses.

    Raised while a record is encoded or decoded, but never that record's fault: it must not be
    skipped or dead-lettered for it.
    """


class OutOfRangeError(AbortableError):
    """An input is to be read at an offset that its log does not hold.

    The committed offsets are read again: they may be in the log, or ``on_data_loss`` decides.
    """


class RetriableError(BrokerError):
    """A passing fault, for example a time-out: the same call may succeed when made again."""


class StateDirectoryError(LogstateError):
    """The state directory is locked by another process, not writable, or not ours."""


class DirectoryInUseError(StateDirectoryError):
    """The directory of a task is open elsewhere: another worker has not closed it yet."""


class StoreError(LogstateError):
    """A state store failed."""


class StoreCorruptedError(StoreError):
    """The local copy of a store is unusable; it is rebuilt from the changelog.

    ``path`` is the directory, where the damage was found in its files.
    """

    def __init__(self, message: str, path: Path | None = None) -> None:
        super().__init__(message)
        self.path = path


class StoreAccessError(StoreError):
    """What was asked of a store cannot be had; whoever asked has to ask otherwise, or later."""


class StoreMethodError(StoreAccessError, AttributeError):
    """A store of this kind does not have the method; ``hasattr`` says False of it."""


class StoreArgumentError(StoreAccessError, SerdeError):
    """An argument of a query is of another type than the store takes, or no key of it."""


class StoreUnavailableError(StoreAccessError):
    """A query cannot be answered here or now; the message says where the partition is."""


class RestoreError(LogstateError):
    """The changelog contradicts the committed position, for example a truncated log."""


class SnapshotError(LogstateError):
    """No attempt of a snapshot succeeded in time; the message says what the last one lacked."""


#: after these the records of the open transaction are processed again
REPLAYED = (AbortableError, FencedError, RetriableError, RefusedError, StoreCorruptedError)
