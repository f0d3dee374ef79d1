"""The source of a change feed, which views and tables record and compare.

How it works: an offset identifies a record in one topic only. So a change feed has its application,
its topic, the topic's id and its partition count in the metadata of its columns ``_partition`` and
``_offset``. Spark keeps this metadata through filters, projections and groupings, and for batches
without rows. A target records the source with its first batch and refuses batches of another
source: a topic that was created again, or resharded, begins at offset 0, and its changes below the
positions of the target would be skipped.

Invariants:

- A target that records a source never takes in changes of another, or of an unknown one.
- A target never takes in a query that starts beyond what the target has (``feed_start``).
- A target of an earlier version, which records none, takes a source over only from a query that
  continues its own checkpoint, because the checkpoint refuses another topic.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from logstate.changelog.reading.changelog_source import ChangelogSource
from logstate.changelog.reading.options import SourceOptions
from logstate.changelog.spark.feed_start import (
    POSITION_COLUMNS,
    FeedStart,
    check_start,
    positions_of,
    start_of,
)
from logstate.contracts.errors import RestoreError

#: the name of the source in the metadata of the position columns
_METADATA: Final = "logstate.source"
_PROPERTIES: Final = "logstate."
_FIRST_BATCH: Final = f"{_PROPERTIES}first_batch"
_NEW_TARGET: Final = "start the query with a new checkpoint and a new, empty target"


@dataclass(frozen=True)
class FeedSource:
    """Where changes come from. An empty string or 0 means unknown."""

    application: str
    topic: str
    topic_id: str
    partitions: int

    @classmethod
    def of(cls, options: SourceOptions, source: ChangelogSource) -> FeedSource:
        """Return the source of a feed with these options."""
        return cls(options.application or "", source.topic, source.topic_id, source.partitions)

    def fits(self, other: FeedSource) -> bool:
        """Return whether offsets of both mean the same records; unknown values match any value.

        >>> one = FeedSource("shop", "shop-spend-changelog", "ZbQ0", 4)
        >>> one.fits(FeedSource("", "shop-spend-changelog", "ZbQ0", 4))
        True
        >>> one.fits(FeedSource("shop", "shop-spend-changelog", "x1Yp", 4))
        False
        """
        pairs = zip(asdict(self).values(), asdict(other).values(), strict=True)
        return all(mine == others or not mine or not others for mine, others in pairs)

    def __str__(self) -> str:
        application = f"application {self.application!r}, " if self.application else ""
        topic_id = f"with the id {self.topic_id} " if self.topic_id else ""
        count = "1 partition" if self.partitions == 1 else f"{self.partitions} partitions"
        return f"{application}topic {self.topic!r} {topic_id}and {count}"


def with_source(
    schema: StructType, source: FeedSource, start: FeedStart | None = None
) -> StructType:
    """Return the columns of a change feed, with source and start in the metadata of positions."""
    noted = {_METADATA: json.dumps(asdict(source)), **(start.metadata() if start else {})}
    return StructType(
        [
            StructField(each.name, each.dataType, each.nullable, noted)
            if each.name in POSITION_COLUMNS
            else each
            for each in schema.fields
        ]
    )


def source_of(changes: DataFrame) -> FeedSource | None:
    """Return the source of a batch, or None if its position columns have none or differ."""
    found = {
        each.metadata[_METADATA]
        for each in changes.schema.fields
        if each.name in POSITION_COLUMNS and _METADATA in (each.metadata or {})
    }
    return FeedSource(**json.loads(found.pop())) if len(found) == 1 else None


def check_source(target: str, recorded: FeedSource, found: FeedSource | None) -> None:
    """Raise RestoreError if a target has changes of another source than a batch."""
    if found is None:
        raise RestoreError(
            f"{target} holds changes of {recorded}, and this batch does not name its source,"
            " because its columns _partition and _offset were recomputed: keep both columns of the"
            " change feed unchanged"
        )
    if not recorded.fits(found):
        raise RestoreError(
            f"{target} holds changes of {recorded}, and this batch is of {found}, whose offsets"
            f" count other records: {_NEW_TARGET}"
        )


def refuse_unrecorded(target: str, found: FeedSource, remedy: str) -> RestoreError:
    """Return the error for a target that does not record the source of its rows."""
    return RestoreError(
        f"{target} does not record the topic of its rows, because an earlier version of"
        f" logstate made it, and this query began with a new checkpoint on {found}, which may be"
        f" another one: {remedy}"
    )


def record_in_table(
    session: SparkSession,
    table: str,
    batch_id: int,
    changes: DataFrame,
    *,
    partition: str = "_partition",
) -> None:
    """Record the source of changes in the properties of a table, or compare it with them.

    A table without them takes over the source of its first batch if it is empty or the query
    continues a checkpoint (``batch_id`` above 0). ``partition`` is the table's column for
    ``_partition``. Raises RestoreError otherwise; if the table records another source; and if a
    new checkpoint starts beyond the changes that the table has.
    """
    rows = session.sql(f"SHOW TBLPROPERTIES {table}").collect()
    properties = {row["key"]: row["value"] for row in rows}
    recorded, found = _of_properties(properties), source_of(changes)
    first = _first_batch(batch_id, changes)
    if recorded is not None:
        check_source(f"the table {table}", recorded, found)
        if first and first != properties.get(_FIRST_BATCH):
            reached = positions_of(session.table(table), partition)
            check_start(f"the table {table}", start_of(changes), reached)
        return
    if found is None:
        return
    noted = asdict(found)
    if batch_id == 0 and not session.table(table).isEmpty():
        statement = _set_properties(table, noted)
        remedy = f"{_NEW_TARGET}, or run {statement} if it is the same topic"
        raise refuse_unrecorded(f"the table {table}", found, remedy)
    session.sql(_set_properties(table, {**noted, **({"first_batch": first} if first else {})}))


def _first_batch(batch_id: int, changes: DataFrame) -> str:
    """Return what identifies the first batch of a checkpoint; "" if no changes can be missing."""
    start = start_of(changes)
    if batch_id > 0 or start is None or not start.may_skip_changes():
        return ""
    return json.dumps({str(n): at for n, at in sorted(positions_of(changes).items())})


def _of_properties(properties: Mapping[str, Any]) -> FeedSource | None:
    topic = properties.get(f"{_PROPERTIES}topic")
    if topic is None:
        return None
    return FeedSource(
        properties.get(f"{_PROPERTIES}application", ""),
        topic,
        properties.get(f"{_PROPERTIES}topic_id", ""),
        int(properties.get(f"{_PROPERTIES}partitions", "0")),
    )


def _set_properties(table: str, noted: Mapping[str, Any]) -> str:
    pairs = ", ".join(f"'{_PROPERTIES}{name}' = '{value}'" for name, value in noted.items())
    return f"ALTER TABLE {table} SET TBLPROPERTIES ({pairs})"
