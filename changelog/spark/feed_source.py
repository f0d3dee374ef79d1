"""Which log the changes of a feed come from, and whether a view or a table holds changes of it.

How it works: offsets mean something in one topic only. So a change feed names its application, its
topic, the topic's id and its partition count in the metadata of its columns ``_partition`` and
``_offset``; Spark keeps these through filters, projections and groupings, and for batches without
rows. A target records them with its first batch, and a batch with other ones is refused: a topic
that was created again, or resharded, begins at offset 0, and all its changes below the positions
that the target has reached would be skipped.

Invariants:

- A target that records a source never takes in changes of another, or of an unknown one.
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
from logstate.contracts.errors import RestoreError

#: the columns whose metadata name the source, and under which name
_COLUMNS: Final = ("_partition", "_offset")
_METADATA: Final = "logstate.source"
_PROPERTIES: Final = "logstate."
_NEW_TARGET: Final = "start the query with a new checkpoint and a new, empty target"


@dataclass(frozen=True)
class FeedSource:
    """Where changes come from. An empty text or 0: unknown."""

    application: str
    topic: str
    topic_id: str
    partitions: int

    @classmethod
    def of(cls, options: SourceOptions, source: ChangelogSource) -> FeedSource:
        """The source of a feed with these options."""
        return cls(options.application or "", source.topic, source.topic_id, source.partitions)

    def fits(self, other: FeedSource) -> bool:
        """Whether offsets of both mean the same records; unknown values fit all.

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


def with_source(schema: StructType, source: FeedSource) -> StructType:
    """The columns of a change feed, with their source in the metadata of the positions."""
    noted = {_METADATA: json.dumps(asdict(source))}
    return StructType(
        [
            StructField(each.name, each.dataType, each.nullable, noted)
            if each.name in _COLUMNS
            else each
            for each in schema.fields
        ]
    )


def source_of(changes: DataFrame) -> FeedSource | None:
    """The source of a batch; None if neither position column names one, or they differ."""
    found = {
        each.metadata[_METADATA]
        for each in changes.schema.fields
        if each.name in _COLUMNS and _METADATA in (each.metadata or {})
    }
    return FeedSource(**json.loads(found.pop())) if len(found) == 1 else None


def check_source(target: str, recorded: FeedSource, found: FeedSource | None) -> None:
    """Raises RestoreError if a target holds the changes of another source than a batch has."""
    if found is None:
        raise RestoreError(
            f"{target} holds changes of {recorded}, and this batch does not name its source,"
            " because its columns _partition and _offset were recomputed: keep both as the"
            " change feed has them"
        )
    if not recorded.fits(found):
        raise RestoreError(
            f"{target} holds changes of {recorded}, and this batch is of {found}, whose offsets"
            f" count other records: {_NEW_TARGET}"
        )


def refuse_unrecorded(target: str, found: FeedSource, remedy: str) -> RestoreError:
    """The error for a target with rows of an unknown source that a new checkpoint writes to."""
    return RestoreError(
        f"{target} does not record which topic its rows are of, because an earlier version of"
        f" logstate made it, and this query began with a new checkpoint on {found}, which may be"
        f" another one: {remedy}"
    )


def record_in_table(session: SparkSession, table: str, batch_id: int, changes: DataFrame) -> None:
    """Record the source of changes in the properties of a table, or compare it with them.

    A table without them takes over the source of its first batch if it is empty or the query
    continues a checkpoint (``batch_id`` above 0). Raises RestoreError otherwise, and if the table
    records another source.
    """
    rows = session.sql(f"SHOW TBLPROPERTIES {table}").collect()
    properties = {row["key"]: row["value"] for row in rows}
    recorded, found = _of_properties(properties), source_of(changes)
    if recorded is not None:
        check_source(f"the table {table}", recorded, found)
        return
    if found is None:
        return
    statement = f"ALTER TABLE {table} SET TBLPROPERTIES ({_as_properties(found)})"
    if batch_id == 0 and not session.table(table).isEmpty():
        remedy = f"{_NEW_TARGET}, or run {statement} if it is the same topic"
        raise refuse_unrecorded(f"the table {table}", found, remedy)
    session.sql(statement)


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


def _as_properties(source: FeedSource) -> str:
    return ", ".join(f"'{_PROPERTIES}{name}' = '{value}'" for name, value in asdict(source).items())
