"""Which records of a changelog the committed state is made of, and whether they are there. Pure.

A restore from a log that has lost records would lose rows without an error. So every restore is
either complete or refused: what is needed is known, and is compared with what the log and the local
rows hold.

The records that are needed go from ``first`` to ``end``:

- ``end`` is the position of the changelog in the cut that was committed with the offsets. Behind it
  are only transaction markers and records of transactions that were not committed.
- ``first`` is 0 for a changelog whose rows never expire. Compaction and transaction markers leave
  holes in such a log and never raise its start; DeleteRecords and retention do.
- ``first`` of a windowed store is in the cut: its owner deletes expired rows, and only below the
  offset that it has committed before. Where brokers delete by age as well, a log that starts later
  is complete while that age covers all rows that have not expired.
- ``first`` of a source topic that serves as changelog is in the cut: the start that it had when the
  rows were first built.
- After a loss that the user accepted, ``first`` is the start of the log at that time.

Local rows are made of the records from where the log began when they were built to their position.
Where the log holds the others, or these are all that is needed, they are kept.
"""

from __future__ import annotations

from typing import NamedTuple

from logstate.changelog.cut import Cut
from logstate.contracts.stores import StoreSpec


class LogRange(NamedTuple):
    """Offsets of a partition: the first, and the next one after the last."""

    start: int
    end: int


class Needed(NamedTuple):
    """The records that the committed state is made of; None where that is not known."""

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
    """What the state of a store needs of its changelog.

    ``cut`` has the clocks under the present names of stores. ``committed``: where a source topic is
    the changelog, the offset at which the task reads on. ``retention_ms``: the age at which brokers
    delete records of the topic; None if they do not.
    """
    if cut is None:
        cut = Cut(0)
    is_recorded = spec.traits.is_segmented or spec.source_topic is not None
    first = cut.begins.get(topic, None if is_recorded else 0)
    end = cut.positions.get(topic) if spec.source_topic is None else committed
    if first is not None and spec.traits.is_segmented and retention_ms is not None:
        behind_ms = now_ms - cut.clocks.get(f"store:{spec.name}", -1)
        if behind_ms <= retention_ms - (spec.retention_ms or 0):
            first = max(first, log.start)
    return Needed(first, end)


def lost_beginning(log: LogRange, needed: Needed, rows: LogRange | None = None) -> str | None:
    """What the log no longer has at its beginning, beside ``rows``; None where nothing is missing.

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
    """What the log no longer has at its end; None where nothing is missing.

    >>> lost_end(LogRange(0, 12), Needed(0, 19))
    'it ends at 12, but the committed offsets belong to position 19'
    """
    if needed.end is None or log.end >= needed.end:
        return None
    return f"it ends at {log.end}, but the committed offsets belong to position {needed.end}"
