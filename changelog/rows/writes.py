"""The changelog writes of a store since the last commit.

``changelog_writes="commit"`` (default) logs a row once per commit, its last write; ``"update"``
logs every write in order, as Kafka Streams without caches does. What a row IS depends on the store
kind, so the store names it: the key, the window key, (key, valid-from). Stores that keep duplicates
give every write its own identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from logstate.changelog.rows.layers import Layer
from logstate.contracts.processing import TimeCell
from logstate.contracts.records import Headers

_LAST = 0x7FFFFFFF


def next_number(cell: TimeCell) -> int:
    """Count one further; the cell keeps the number as state of the task.

    >>> cell = TimeCell()
    >>> next_number(cell), next_number(cell)
    (1, 2)
    """
    cell.time = (max(cell.time, 0) + 1) & _LAST
    return cell.time


#: A changelog record as a plain tuple, in the order of :class:`LoggedWrite`: what restores read.
LoggedFields: TypeAlias = "tuple[bytes, bytes | None, int | None, Headers]"


class LoggedWrite(NamedTuple):
    """A changelog record; ``timestamp`` None lets the producer stamp it (suppress buffers)."""

    key: bytes
    value: bytes | None
    timestamp: int | None
    headers: Headers = None


class ChangelogWrites:
    """The writes of one store since the last commit."""

    def __init__(self, *, is_logged: bool, logs_every_write: bool) -> None:
        self.is_logged = is_logged
        self.logs_every_write = logs_every_write
        self._last: dict[bytes, LoggedFields] = {}
        self._every: list[LoggedFields] = []
        self._journal: list[tuple[bytes, LoggedFields | None]] | None = None
        self._journal_length = 0
        #: order of the identities before the journal's first write that changed it
        self._journal_order: list[bytes] | None = None

    def add(
        self,
        identity: bytes,
        write: LoggedFields,
        *,
        moves_to_end: bool = False,
        once_per_commit: bool = False,
    ) -> None:
        """Log a write of the row ``identity``; replaces an earlier one of this commit.

        ``moves_to_end`` keeps WRITE order among identities (versioned stores); otherwise a row
        keeps the place of its first write. ``once_per_commit``: only the last write of the row,
        even where every write is logged (suppress buffers, which Kafka Streams flushes at commits).
        """
        if not self.is_logged:
            return
        if self.logs_every_write and not once_per_commit:
            self._every.append(write)
            return
        if self._journal is not None:
            self._journal.append((identity, self._last.get(identity)))
        if moves_to_end and identity in self._last:
            if self._journal is not None and self._journal_order is None:
                self._journal_order = list(self._last)
            del self._last[identity]
        self._last[identity] = write

    def add_all(self, writes: Mapping[bytes, LoggedFields]) -> None:
        """Log the only or last writes of many rows: ``add(identity, write)`` of each."""
        if self._journal is not None or self.logs_every_write:
            for identity, write in writes.items():
                self.add(identity, write)
        elif self.is_logged:
            self._last.update(writes)

    def take(self) -> list[LoggedFields]:
        """Return the commit's writes, in order; later writes belong to the next commit."""
        writes = self._every + list(self._last.values())
        self._last = {}
        self._every = []
        return writes

    def begin_journal(self) -> None:
        """Remember old writes from here on, so that one record's can be undone."""
        self._journal = []
        self._journal_length = len(self._every)
        self._journal_order = None

    def end_journal(self, *, rollback: bool) -> None:
        """Stop recording; with ``rollback`` restore the earlier writes."""
        journal, self._journal = self._journal, None
        if not rollback or journal is None:
            return
        del self._every[self._journal_length :]
        for identity, write in reversed(journal):
            if write is None:
                self._last.pop(identity, None)
            else:
                self._last[identity] = write
        if self._journal_order is not None:
            self._last = {i: self._last[i] for i in self._journal_order if i in self._last}


@dataclass(frozen=True)
class StateChanges:
    """The content of one commit, taken out of all stores at the same instant."""

    writes: Mapping[str, list[LoggedFields]]
    layers: Mapping[str, Layer]
    clocks: Mapping[str, int]
    #: store to the first record of its changelog that the state needs (see segment_offsets)
    first_needed: Mapping[str, int] = field(default_factory=dict)
    #: store without a changelog to the number of this commit
    local_rows: Mapping[str, int] = field(default_factory=dict)
