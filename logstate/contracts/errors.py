"""Every exception the library raises on purpose.

::

    LogstateError
    ├── ConfigError             your configuration; all problems are listed at once
    ├── TopologyError           your graph; names the user's file and line
    ├── SerdeError              no serde, or a value that its serde cannot encode
    │   └── DeserializationError   bytes that do not decode; names topic, partition, offset
    ├── ProcessingError         a user's function raised; names node and record
    ├── WrongThreadError        a processor's context was used on another thread than its task
    ├── ProductionError         a record could not be encoded or delivered
    │   └── RefusedError           the broker or the client permanently refuses a record
    ├── TopicError              a topic is missing or has the wrong shape
    │   └── TopicsChangedError  topics changed: a worker restarts with the current ones
    ├── UpgradeError            the topology would read the stored state as something else
    ├── BrokerError             the brokers cannot be reached or refuse
    │   ├── FencedError         another owner took over: drop the tasks, rejoin (retried inside)
    │   │   └── LostMemberError    this group member is unusable: another joins (retried inside)
    │   │       └── ForeignGroupError  the group has members of another protocol (awaited inside)
    │   ├── MembersLiveError    the group has members, and the request needs one without
    │   ├── AbortableError      this transaction must be aborted and replayed (retried inside)
    │   │   └── OutOfRangeError    records to be read were deleted (handled inside)
    │   └── RetriableError      a transient fault: the same call may succeed (retried inside)
    ├── RegistryError           the schema registry cannot be reached or refuses; no record's fault
    ├── StateDirectoryError     the local directory is locked, unwritable or foreign
    │   └── DirectoryInUseError    a task's directory is open elsewhere (waited for inside)
    ├── StoreError              a store failed
    │   ├── StoreCorruptedError    the local copy is unusable: rebuilt from the changelog
    │   └── StoreAccessError       the store cannot do it, or is not accessible to the caller
    │       ├── StoreMethodError       this kind of store has no such method; an AttributeError
    │       ├── StoreArgumentError     a key, time or partition of a query has a wrong type
    │       └── StoreUnavailableError  a query cannot be answered here or now; names the owner
    ├── RestoreError            the changelog contradicts the committed position
    └── SnapshotError           the tasks did not take a common snapshot in time

Messages say what happened; what was found; the likely cause; what to do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path

from logstate.contracts.clients import Steps
from logstate.contracts.compatibility import SpecChange
from logstate.contracts.error_text import text_of

_LOGGER = logging.getLogger(__name__)


class ErrorCollector:
    """Closes all resources; ``finish`` raises the first failure.

    ``cause`` is the error that made it necessary, if any: then failures are only logged, because
    the cause must be raised.
    """

    def __init__(self, cause: BaseException | None = None) -> None:
        self._cause = cause
        self._failure: Exception | None = None

    def call(self, close: Callable[[], object]) -> None:
        """Close one resource."""
        try:
            close()
        except Exception as exc:  # noqa: BLE001  user code may raise anything
            self._keep_first_failure(exc)

    def steps(self, close: Steps[None]) -> Steps[None]:
        """Close one resource whose ``close`` is a generator of steps."""
        try:
            yield from close
        except Exception as exc:  # noqa: BLE001
            self._keep_first_failure(exc)

    def finish(self) -> None:
        """Raise the first failure, after all resources were closed."""
        if self._failure is not None and self._cause is None:
            raise self._failure

    def _keep_first_failure(self, exc: Exception) -> None:
        _LOGGER.warning(
            "closing continues after a failure: %s: %s", type(exc).__name__, text_of(exc)
        )
        self._failure = self._failure or exc


#: errors of msgspec for invalid bytes: its own errors and those of invalid UTF-8 are ValueErrors,
#: and data without a type may be nested deeper than Python's recursion limit
UNDECODABLE = (ValueError, RecursionError)


class LogstateError(Exception):
    """Base class: ``except LogstateError`` catches all that the library raises on purpose."""


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
    """Raise ConfigError with the problems of all rules together, if there are any."""
    problems = list(chain.from_iterable(rules))
    if problems:
        raise ConfigError(problems)


class TopologyError(LogstateError):
    """The graph is wrong. ``declared_at`` is the user's ``file:line`` if it is known."""

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
    """A processor's context, or one of its stores, was used on another thread than its task.

    ``task`` and ``node`` name its owner. The call did nothing; if it would have changed state, the
    application also stops with a ProcessingError before its next commit.
    """

    def __init__(self, message: str, *, task: str, node: str) -> None:
        self.task = task
        self.node = node
        super().__init__(message)


class ProductionError(RecordError):
    """A record could not be encoded or delivered, for example because it is too large."""


class RefusedError(ProductionError):
    """A record in the open transaction is permanently refused; no retry will deliver it.

    A replay finds the record that caused it, and a handler may skip it.
    """


class TopicError(LogstateError):
    """A topic is missing, or its partition count or configuration does not fit."""


class TopicsChangedError(TopicError):
    """The topics changed since a worker started: another worker starts with the current ones.

    Its start reads the new topics, or refuses them and says what to do. ``only_new``: topics that
    match a pattern were created, and nothing else has changed.
    """

    def __init__(self, message: str, *, only_new: bool = False) -> None:
        self.only_new = only_new
        super().__init__(message)


class UpgradeError(LogstateError):
    """The topology does not fit the stored state. ``changes`` lists every difference.

    Raised before a record is read or a row is touched; nothing was changed.
    """

    def __init__(self, message: str, changes: Sequence[SpecChange] = ()) -> None:
        self.changes = tuple(changes)
        super().__init__(message)


class BrokerError(LogstateError):
    """The brokers cannot be reached, or refuse for a reason that retrying does not fix."""


class FencedError(BrokerError):
    """Another member owns the partitions or the transactional id now: drop the tasks, rejoin."""


class LostMemberError(FencedError):
    """The group's consumer cannot be used again: a new one joins instead."""


class ForeignGroupError(LostMemberError):
    """A member of this protocol cannot join the group, which the JVM library uses or used."""


class MembersLiveError(BrokerError):
    """The group has members, but the request needs a group without members."""


class AbortableError(BrokerError):
    """The open transaction must be aborted; its records are read and processed again."""


class RegistryError(LogstateError):
    """The schema registry cannot be reached or refuses.

    Raised while a record is encoded or decoded, but not caused by that record: it must not be
    skipped or sent to the dead-letter topic.
    """


class OutOfRangeError(AbortableError):
    """An input would be read at an offset that is not in its log.

    The committed offsets are read again: they may be in the log, or ``on_data_loss`` decides.
    """


class RetriableError(BrokerError):
    """A transient fault, for example a time-out: the same call may succeed when it is repeated."""


class StateDirectoryError(LogstateError):
    """The state directory is locked by another process, not writable, or of another application."""


class DirectoryInUseError(StateDirectoryError):
    """The directory of a task is in use: another worker has not closed it yet."""


class StoreError(LogstateError):
    """A state store failed."""


class StoreCorruptedError(StoreError):
    """The local copy of a store is unusable; it is rebuilt from the changelog.

    ``path`` is its directory, if the damage was found in the files.
    """

    def __init__(self, message: str, path: Path | None = None) -> None:
        super().__init__(message)
        self.path = path


class StoreAccessError(StoreError):
    """The store cannot answer this request; the caller has to change it, or retry later."""


class StoreMethodError(StoreAccessError, AttributeError):
    """A store of this kind does not have the method; ``hasattr`` returns False for it."""


class StoreArgumentError(StoreAccessError, SerdeError):
    """An argument of a query has a type that the store does not take, or is not a key of it."""


class StoreUnavailableError(StoreAccessError):
    """A query cannot be answered here or now; the message names the partition's owner."""


class RestoreError(LogstateError):
    """The changelog contradicts the committed position, for example a truncated log."""


class SnapshotError(LogstateError):
    """No attempt of a snapshot succeeded in time; the message says what the last one missed."""


#: after these errors, the records of the open transaction are processed again
REPLAYED = (AbortableError, FencedError, RetriableError, RefusedError, StoreCorruptedError)
