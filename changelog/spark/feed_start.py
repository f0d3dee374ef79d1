"""Where a query with a new checkpoint begins, and whether its target has the changes before that.

A change feed names its start in the metadata of its columns ``_partition`` and ``_offset``: the
offsets of ``startingOffsets``, or where the logs begin for ``earliest``. If an existing view or
table has reached offset 412 and the query begins at offset 500, the changes in between are in
neither, and no later batch shows it. So the first batch of a checkpoint is compared with what the
target has reached.

Spark repeats a first batch after a crash, when the target may have it already. A target therefore
accepts a first batch that is equal to the one with which the target began.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from logstate.contracts.errors import RestoreError

POSITION_COLUMNS: Final = ("_partition", "_offset")
_METADATA: Final = "logstate.start"


@dataclass(frozen=True)
class FeedStart:
    """The start of a query without a checkpoint."""

    topic: str
    offsets: Mapping[int, int] | None
    """Partition to the first offset; None: the end of the log when the query starts."""
    is_given: bool = True
    """Whether ``startingOffsets`` names the offsets; otherwise the logs begin there."""

    def may_skip_changes(self) -> bool:
        """Whether there may be changes before the start."""
        return self.offsets is None or any(self.offsets.values())

    def metadata(self) -> dict[str, str]:
        """The entry in the metadata of a column."""
        values = None if self.offsets is None else {str(n): at for n, at in self.offsets.items()}
        return {_METADATA: json.dumps([self.topic, values, self.is_given])}


def start_of(changes: DataFrame) -> FeedStart | None:
    """Return the start that the columns of a batch name; None in feeds of earlier versions."""
    for each in changes.schema.fields:
        if each.name in POSITION_COLUMNS and _METADATA in (each.metadata or {}):
            topic, values, is_given = json.loads(each.metadata[_METADATA])
            offsets = None if values is None else {int(n): at for n, at in values.items()}
            return FeedStart(topic, offsets, is_given)
    return None


def check_start(target: str, start: FeedStart | None, reached: Mapping[int, int]) -> None:
    """Compare the start of a query with the offsets that an existing target has reached.

    ``reached`` is the next offset by partition; a partition without changes may be missing.

    Raises RestoreError if there may be changes between both, which the target would not receive.

    >>> check_start("the view at /data/spend", FeedStart("spend", {0: 412, 1: 0}), {0: 412})
    >>> check_start("the view at /data/spend", FeedStart("spend", None), {0: 412})
    Traceback (most recent call last):
    ...
    logstate.contracts.errors.RestoreError: the view at /data/spend has the changes up to the \
offsets {"spend": {"0": 412}}, and this query starts with a new checkpoint at the latest offsets, \
so the changes in between would be missing: set startingOffsets to earliest or to these offsets, \
or start with a new, empty target
    """
    if start is None or not start.may_skip_changes():
        return
    has = f"{target} has the changes up to the offsets {_text(start.topic, reached)}, and"
    if start.offsets is None:
        raise RestoreError(
            f"{has} this query starts with a new checkpoint at the latest offsets, so the changes"
            " in between would be missing: set startingOffsets to earliest or to these offsets, or"
            " start with a new, empty target"
        )
    beyond = {n: at for n, at in start.offsets.items() if at > reached.get(n, 0)}
    if not beyond:
        return
    if start.is_given:
        raise RestoreError(
            f"{has} this query starts with a new checkpoint at {_text(start.topic, beyond)}, so the"
            " changes in between would be missing: set startingOffsets to earliest or to offsets"
            " that are not beyond those of the target, or start with a new, empty target"
        )
    raise RestoreError(
        f"{has} the log begins at {_text(start.topic, beyond)} now, so the changes in between were"
        " deleted before this query, which has a new checkpoint, could read them: start with a new,"
        " empty target"
    )


def positions_of(changes: DataFrame, partition: str = "_partition") -> dict[int, int]:
    """Return the offset after the last change of each changelog partition in a frame."""
    rows = changes.groupBy(partition).agg(f.max("_offset").alias("last_offset")).collect()
    return {row[partition]: row["last_offset"] + 1 for row in rows}


def _text(topic: str, offsets: Mapping[int, int]) -> str:
    return json.dumps({topic: {str(n): offsets[n] for n in sorted(offsets)}})
