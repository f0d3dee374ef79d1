"""Determine which changelog records the committed state needs, and whether they still exist.

A restore from a log that has lost records would lose rows without an error. Therefore each restore
is either complete or refused: the required records are known and are compared with the contents of
the log and the local rows.

The required records go from ``first`` to ``end``:

- ``end`` is the position of the changelog in the cut that was committed with the offsets. After it
  there are only transaction markers and records of uncommitted transactions.
- ``first`` is 0 for a changelog whose rows never expire. Compaction and transaction markers leave
  holes in such a log but never raise its start; DeleteRecords and retention do.
- ``first`` of a windowed store is in the cut: its owner deletes expired rows, and only below the
  offset that it committed before. If brokers also delete by age, a log that starts later is
  complete as long as that age covers all rows that have not expired.
- ``first`` of a source topic that serves as changelog is in the cut: the start of the topic when
  the rows were first built.
- After a loss that the user accepted, ``first`` is the start of the log at that time.

Local rows were built from the records between the log's start at that time and the rows' position.
They are kept if the log has the remaining records, or if no further records are needed.
"""

from __future__ import annotations

from typing import NamedTuple

from logstate.changelog.cut import Cut
from logstate.changelog.stores.kinds import kind_of
from logstate.contracts.stores import StoreSpec


class LogRange(NamedTuple):
    """Offset range of a partition: the first offset, and the offset after the last record."""

    start: int
    end: int


class Needed(NamedTuple):
    """The records that the committed state is built from; None if unknown."""

    first: int | None = None
    end: int | None = None


def needed_records(
    spec: StoreSpec,
    topic: str,
    cut: Cut | None,
    log: LogRange,
    *,
    committed: int | None,
    retention_ms: int | None,
    now_ms: int,
) -> Needed:
    """Return the changelog records that the state of a store needs.

    ``cut`` has its clocks under the current store names. ``committed``: if a source topic is the
    changelog, the committed offset of the task. ``retention_ms``: the age at which brokers delete
    records of the topic; None if they do not.
    """
    if cut is None:
        cut = Cut(0)
    expires = kind_of(spec).is_segmented
    is_recorded = expires or spec.source_topic is not None
    first = cut.begins.get(topic, None if is_recorded else 0)
    end = cut.positions.get(topic) if spec.source_topic is None else committed
    if first is not None and expires and retention_ms is not None:
        behind_ms = now_ms - cut.clocks.get(f"store:{spec.name}", -1)
        if behind_ms <= retention_ms - (spec.retention_ms or 0):
            first = max(first, log.start)
    return Needed(first, end)


def lost_beginning(log: LogRange, needed: Needed, rows: LogRange | None = None) -> str | None:
    """Describe what is missing at the start of the log and not covered by ``rows``, or return None.

    >>> lost_beginning(LogRange(7, 20), Needed(0, 19))
    'it starts at offset 7, and committed state needs its records from offset 0 on'
    >>> lost_beginning(LogRange(7, 20), Needed(0, 19), LogRange(0, 12)) is None
    True
    """
    first = log.start if needed.first is None else needed.first
    if rows is not None:
        if rows.start > first:
            return (
                f"the local rows were built from its records from offset {rows.start} on, and"
                f" committed state needs those from offset {first} on"
            )
        first = max(first, rows.end)
    end = log.end if needed.end is None else needed.end
    if first >= end or log.start <= first:
        return None
    return (
        f"it starts at offset {log.start}, and committed state needs its records from offset"
        f" {first} on"
    )


def lost_end(log: LogRange, needed: Needed) -> str | None:
    """Describe what is missing at the end of the log, or return None if nothing is.

    >>> lost_end(LogRange(0, 12), Needed(0, 19))
    'it ends at 12, but the committed offsets belong to position 19'
    """
    if needed.end is None or log.end >= needed.end:
        return None
    return f"it ends at {log.end}, but the committed offsets belong to position {needed.end}"
