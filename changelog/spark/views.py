"""An up-to-date copy of a store as parquet files, kept by a streaming query.

How it works: every micro-batch of the change feed is merged into the newest version of the view,
per key by offset, and written as a version of its own; then one small file is renamed into place
that names the new version and how far it got::

    path/CURRENT                    {"version": 7, "batch_id": 7, "positions": {"0": 412, "1": 96},
                                     "directories": [..., "version-00000007-5f0c8e21a9b4"], ...}
    path/version-00000007-5f0c.../  parquet files

Invariants:

- A reader sees a whole version or the next one, never a mixture: ``CURRENT`` is replaced by an
  atomic rename, after the files it names are complete and on the disk.
- Two writers never write into one directory, and one that another has overtaken publishes nothing.
- A batch is taken in only behind the one before it.
- A change counts once. What lies below the positions is skipped, so a batch that Spark repeats
  after a crash, or a whole query started anew from the beginning, changes nothing.
- A view holds the changes of one topic, by its id; a batch of another one is refused.
- A deleted key is absent.
- Rows are told apart by the key's bytes, as in the store, wherever decoded keys do not tell them.

Each batch rewrites the view, so its cost grows with the store: for the size of store that fits
one machine's disk. Larger ones want a table format with MERGE; ``latest_changes`` prepares a batch
for it. ``path`` is a directory that the driver and all executors share.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from logstate.changelog.reading.tables import KEY_BYTES
from logstate.changelog.spark.batch_sequence import RecordedBatch, check_follows
from logstate.changelog.spark.current_file import CurrentFile, new_part
from logstate.changelog.spark.feed_source import (
    FeedSource,
    check_source,
    refuse_unrecorded,
    source_of,
)
from logstate.changelog.spark.retention import (
    KEEP_FOR,
    KEEP_VERSIONS,
    Replaced,
    Retention,
    listed,
)
from logstate.contracts.errors import ConfigError

S = TypeVar("S", bound=RecordedBatch | None)

#: a column that only the feeds of versioned stores have
_VERSIONED = "valid_from"
_NOT_IDENTITY = frozenset({"change_type", "value", "_offset", "_timestamp", "_headers"})


@dataclass(frozen=True)
class ViewState:
    """What ``CURRENT`` says."""

    version: int
    batch_id: int
    positions: dict[int, int] = field(default_factory=dict)
    """Changelog partition to the next offset that has not been taken into the view."""
    notes_every_batch: bool = False
    """Whether batches without changes are noted too; earlier versions did not."""
    source: FeedSource | None = None
    """Whose changes it holds; None: unknown, as in earlier versions."""
    directories: tuple[str, ...] = ()
    """Those that readers may be in, the newest last; earlier versions had them by number only."""
    replaced: tuple[Replaced, ...] = ()
    """When those but the newest were replaced; earlier versions did not note it."""

    def kept(self, count: int) -> tuple[str, ...]:
        """The newest directories, as many at the most."""
        versions = range(max(0, self.version - count + 1), self.version + 1)
        return (self.directories or tuple(f"version-{n:08d}" for n in versions))[-count:]

    def replaced_before(self, count: int) -> tuple[Replaced, ...]:
        """What earlier versions replaced; at most ``count`` where they did not note when."""
        if self.replaced:
            return self.replaced
        older = self.kept(count + 1)[:-1]
        first = self.version - len(older) + 1
        return tuple(Replaced(first + n, 0, (name,)) for n, name in enumerate(older))


class ViewStateWithSource(Protocol):
    """The state of a view of either kind."""

    @property
    def batch_id(self) -> int: ...
    @property
    def source(self) -> FeedSource | None: ...


class ParquetView:
    """A function for ``foreachBatch`` over a change feed, and the view that it keeps."""

    def __init__(
        self,
        path: str | Path,
        *,
        keep_versions: int = KEEP_VERSIONS,
        keep_for: timedelta = KEEP_FOR,
    ) -> None:
        """A version stays for its readers while it is one of the newest ``keep_versions`` (at
        least 2), and for ``keep_for`` after it was replaced, whichever is longer.
        """
        self._retention = Retention(keep_versions, keep_for)
        self.path = Path(path)
        self._current = CurrentFile(self.path)

    def __call__(self, changes: DataFrame, batch_id: int) -> None:
        """Merge one micro-batch. Doing it twice is the same as doing it once.

        Raises:
            ConfigError: the store is versioned.
            RestoreError: the batches before it never came here, or the view holds the changes of
                another topic.
            StoreAccessError: another writer was at work meanwhile; nothing was published.
        """
        with in_turn(self._current, changes, batch_id, self.state) as state:
            self._take_in(changes, batch_id, state)

    def _take_in(self, changes: DataFrame, batch_id: int, state: ViewState | None) -> None:
        reached = positions_of(changes)
        known = state.positions if state else {}
        source = source_to_record(f"the view at {self.path}", state, changes, batch_id)
        if state is not None and are_known(reached, known):
            noted = replace(state, batch_id=batch_id, notes_every_batch=True, source=source)
            if noted != state:
                self._current.check_unchanged(state, self.state())
                self._publish(noted)
            return
        version = state.version + 1 if state else 0
        directory = self.path / f"version-{version:08d}-{new_part()}"
        with self._current.draft(directory):
            rows = self._merged(beyond(changes, known), state)
            rows.write.mode("overwrite").parquet(str(directory))
            self._current.sync(directory)
            self._current.check_unchanged(state, self.state())
        positions = reached_positions(known, reached)
        before = state.replaced_before(self._retention.keep_versions) if state else ()
        last = state.kept(1) if state else ()
        replaced = self._retention.after(before, version, last)
        kept = (*(path for one in replaced for path in one.paths), directory.name)
        self._publish(ViewState(version, batch_id, positions, True, source, kept, replaced))
        self._remove_old(version, kept)

    def read(self, spark: SparkSession) -> DataFrame:
        """The newest version. Raises FileNotFoundError before the first batch.

        Columns are those of the change feed without ``change_type``.
        """
        state = self.state()
        if state is None:
            raise self._current.missing()
        return spark.read.parquet(str(self._directory(state)))

    def state(self) -> ViewState | None:
        """The newest version and how far it got, or None before the first batch."""
        found = self._current.read()
        if found is None:
            return None
        found["directories"] = tuple(found.get("directories", ()))
        found["replaced"] = listed(found.get("replaced", ()))
        return ViewState(**{**found, "source": recorded_source(found)})

    def _merged(self, changes: DataFrame, state: ViewState | None) -> DataFrame:
        if state is not None:
            reader, directory = changes.sparkSession.read, str(self._directory(state))
            if KEY_BYTES in changes.columns:
                check_identity(
                    changes, reader.parquet(directory).columns, f"the view at {self.path}"
                )
            current = reader.schema(changes.drop("change_type").schema).parquet(directory)
            changes = changes.unionByName(current.withColumn("change_type", f.lit("update")))
        return latest_changes(changes).where("change_type = 'update'").drop("change_type")

    def _publish(self, state: ViewState) -> None:
        self._current.publish(asdict(state))

    def _remove_old(self, version: int, kept: tuple[str, ...]) -> None:
        # Also what a crash left behind before it was published.
        for directory in self.path.glob("version-*"):
            is_older = int(directory.name.split("-")[1]) < version
            if is_older and directory.name not in kept:
                shutil.rmtree(directory, ignore_errors=True)

    def _directory(self, state: ViewState) -> Path:
        return self.path / state.kept(1)[0]


def parquet_view(
    path: str | Path, *, keep_versions: int = KEEP_VERSIONS, keep_for: timedelta = KEEP_FOR
) -> ParquetView:
    """A view for ``changes.writeStream.foreachBatch(parquet_view("/data/spend"))``.

    A version stays for its readers while it is one of the newest ``keep_versions``, and for
    ``keep_for`` after it was replaced, whichever is longer. Raises ValueError below 2 versions,
    ConfigError for a negative ``keep_for``.

    >>> parquet_view("/data/spend").state() is None
    True
    """
    return ParquetView(path, keep_versions=keep_versions, keep_for=keep_for)


def latest_changes(changes: DataFrame) -> DataFrame:
    """The newest change of each row of a change feed, deletes included: what a MERGE wants.

    Rows are told apart by partition and the key's bytes, ``_key``; where a feed has no such column,
    by key, window and valid-from, which are as exact there. Newest is by offset. Of a versioned
    store a delete is a row of its own, which ends the version before it.

    Raises ConfigError if keys are or contain maps and the feed has no ``_key``: Spark groups none.
    """
    identity = row_identity(changes)
    refuse_maps(changes, identity)
    rest = [name for name in changes.columns if name not in identity]
    newest = changes.groupBy(*identity).agg(f.max_by(f.struct(*rest), "_offset").alias("_newest"))
    return newest.select(*identity, "_newest.*").select(*changes.columns)


@contextmanager
def in_turn(
    current: CurrentFile, changes: DataFrame, batch_id: int, state: Callable[[], S]
) -> Iterator[S]:
    """A batch that a view may take in, its changes kept, while no other writer is at work.

    Gives the state that the view has then; raises as the views say.
    """
    refuse_versions(changes)
    with current.locked():
        found = state()
        check_follows(current.folder, found, batch_id)
        changes.persist()
        try:
            yield found
        finally:
            changes.unpersist()


def source_to_record(
    target: str, state: ViewStateWithSource | None, changes: DataFrame, batch_id: int
) -> FeedSource | None:
    """The source that a view records from this batch on. Raises RestoreError for another one."""
    found = source_of(changes)
    if state is None:
        return found
    if state.source is not None:
        check_source(target, state.source, found)
        return state.source
    if found is not None and batch_id <= state.batch_id:
        remedy = "start the query with a new checkpoint and a new directory"
        raise refuse_unrecorded(target, found, remedy)
    return found


def recorded_source(published: Mapping[str, Any]) -> FeedSource | None:
    """The source that ``CURRENT`` records."""
    found = published.get("source")
    return None if found is None else FeedSource(**found)


def check_identity(changes: DataFrame, columns: Sequence[str], target: str) -> None:
    """Raises ConfigError if a target has no key bytes and the changes tell rows apart by them."""
    if KEY_BYTES in changes.columns and KEY_BYTES not in columns:
        raise ConfigError(
            f"{target} has no column {KEY_BYTES} (binary), by which these changes tell rows apart:"
            " it was made for an earlier version of logstate, which compared decoded keys, so"
            " different keys that Spark takes for equal (1.0 and 1.00, 0.0 and -0.0) are one row"
            " there. Make a new one with the columns of the change feed, and start the query with"
            " a new checkpoint"
        )


def refuse_versions(changes: DataFrame) -> None:
    """Raises ConfigError for changes of a versioned store, of which a copy cannot be kept so."""
    if _VERSIONED not in changes.columns:
        return
    raise ConfigError(
        "these are the changes of a versioned store (they have a column valid_from), in which a"
        " deletion ends the version before it and removes none. A view or a MERGE that keeps one"
        " row per key would show deleted rows for ever: it would have to keep every version, and"
        " set the end of the one before. Read the store itself instead, which tells valid_from and"
        " valid_to; where('valid_to is null') is the present"
    )


def refuse_maps(changes: DataFrame, identity: Sequence[str]) -> None:
    """Raises ConfigError for rows that maps would tell apart: Spark does not compare them."""
    maps = [name for name in identity if _has_map(changes.schema[name].dataType)]
    if maps:
        raise ConfigError(
            f"rows would be told apart by the column {maps[0]!r}, which is or contains a map, and"
            f" Spark does not compare maps. Keep the column {KEY_BYTES} of the change feed, the"
            " key's bytes, in what the view or MERGE is given; a feed of an earlier version of"
            " logstate has none: start the query again with this version"
        )


def _has_map(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _has_map(kind.elementType)
    return isinstance(kind, MapType)


def row_identity(changes: DataFrame) -> list[str]:
    """The columns that tell rows apart: the key's bytes where changes have them.

    Decoded keys of most formats do not: 1.0 and 1.00 are equal for Spark, and two rows.
    """
    if KEY_BYTES in changes.columns:
        return [KEY_BYTES, "_partition"]
    return [name for name in changes.columns if name not in _NOT_IDENTITY]


def positions_of(changes: DataFrame) -> dict[int, int]:
    """Changelog partition to the offset behind its last change."""
    rows = changes.groupBy("_partition").agg(f.max("_offset").alias("last_offset")).collect()
    return {row["_partition"]: row["last_offset"] + 1 for row in rows}


def are_known(reached: dict[int, int], known: dict[int, int]) -> bool:
    """Whether a batch that got so far has nothing new for a view that is at known positions."""
    return all(end <= known.get(partition, 0) for partition, end in reached.items())


def reached_positions(known: dict[int, int], reached: dict[int, int]) -> dict[int, int]:
    """The positions of a view that has taken a batch in."""
    return {n: max(known.get(n, 0), reached.get(n, 0)) for n in {*known, *reached}}


def beyond(changes: DataFrame, positions: dict[int, int]) -> DataFrame:
    """The changes at positions and later."""
    for partition, position in sorted(positions.items()):
        changes = changes.where((f.col("_partition") != partition) | (f.col("_offset") >= position))
    return changes
