"""An up-to-date copy of a store as parquet files, updated by a streaming query.

How it works: each micro-batch of the change feed is merged into the newest version of the view, by
key and offset, and written as a new version. Then a small file is renamed into place, which names
the new version and its positions::

    path/CURRENT                    {"version": 7, "batch_id": 7, "positions": {"0": 412, "1": 96},
                                     "directories": [..., "version-00000007-5f0c8e21a9b4"], ...}
    path/version-00000007-5f0c.../  parquet files

Invariants:

- A reader sees one whole version or the next one: an atomic rename replaces ``CURRENT`` after the
  files that it names are complete and on the disk.
- Two writers never write into one directory, and a writer publishes nothing if another one has
  published since it began.
- A batch is applied only after the batch before it.
- A change is applied once. Changes below the positions are skipped, so a batch that Spark repeats
  after a crash, or a query that starts again from the beginning, changes nothing.
- A view has the changes of one topic, identified by its id; a batch of another topic is refused.
- A deleted key is absent.
- Rows are identified by the key's bytes, as in the store, where decoded keys are ambiguous.

Each batch rewrites the whole view, so its cost grows with the store. For larger stores use a table
format with MERGE; ``latest_changes`` prepares a batch for it. ``path`` is a directory that the
driver and all executors share.
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
from logstate.changelog.spark.feed_start import check_start, positions_of, start_of
from logstate.changelog.spark.retention import (
    KEEP_FOR,
    KEEP_VERSIONS,
    Replaced,
    Retention,
    listed,
)
from logstate.contracts.errors import ConfigError

S = TypeVar("S", bound=RecordedBatch | None)

#: a column that only feeds of versioned stores have
_VERSIONED = "valid_from"
_NOT_IDENTITY = frozenset({"change_type", "value", "_offset", "_timestamp", "_headers"})


@dataclass(frozen=True)
class ViewState:
    """The contents of ``CURRENT``."""

    version: int
    batch_id: int
    positions: dict[int, int] = field(default_factory=dict)
    """Changelog partition to the offset of the first change that the view does not have."""
    notes_every_batch: bool = False
    """Whether batches without changes are recorded; earlier versions did not record them."""
    source: FeedSource | None = None
    """The source of its changes; None if unknown, as in earlier versions."""
    directories: tuple[str, ...] = ()
    """Directories that readers may use, the newest last; earlier versions record only numbers."""
    replaced: tuple[Replaced, ...] = ()
    """When the older directories were replaced; earlier versions do not record it."""

    def kept(self, count: int) -> tuple[str, ...]:
        """Return at most ``count`` of the newest directories."""
        versions = range(max(0, self.version - count + 1), self.version + 1)
        return (self.directories or tuple(f"version-{n:08d}" for n in versions))[-count:]

    def replaced_before(self, count: int) -> tuple[Replaced, ...]:
        """Return the replaced directories; at most ``count`` if their times are not recorded."""
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
    def positions(self) -> dict[int, int]: ...
    @property
    def source(self) -> FeedSource | None: ...


class ParquetView:
    """A function for ``foreachBatch`` over a change feed, and the view that it updates."""

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
        """Merge one micro-batch. Merging it again changes nothing.

        Raises:
            ConfigError: the store is versioned.
            RestoreError: earlier batches are missing in the view, the view has the changes of
                another topic, or a new checkpoint starts beyond the changes that the view has.
            StoreAccessError: another writer was active at the same time; nothing was published.
        """
        with locked_and_persisted(self._current, changes, batch_id, self.state) as state:
            self._take_in(changes, batch_id, state)

    def _take_in(self, changes: DataFrame, batch_id: int, state: ViewState | None) -> None:
        reached = positions_of(changes)
        known = state.positions if state else {}
        source = source_to_record(f"the view at {self.path}", state, changes, batch_id)
        check_continues(f"the view at {self.path}", state, changes, batch_id, reached)
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
        """Return the newest version. Raise FileNotFoundError before the first batch.

        Columns are those of the change feed without ``change_type``.
        """
        state = self.state()
        if state is None:
            raise self._current.missing()
        return spark.read.parquet(str(self._directory(state)))

    def state(self) -> ViewState | None:
        """Return the newest version and its positions, or None before the first batch."""
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
        # Also directories of a crashed writer, which were never published.
        for directory in self.path.glob("version-*"):
            is_older = int(directory.name.split("-")[1]) < version
            if is_older and directory.name not in kept:
                shutil.rmtree(directory, ignore_errors=True)

    def _directory(self, state: ViewState) -> Path:
        return self.path / state.kept(1)[0]


def parquet_view(
    path: str | Path, *, keep_versions: int = KEEP_VERSIONS, keep_for: timedelta = KEEP_FOR
) -> ParquetView:
    """Return a view for ``changes.writeStream.foreachBatch(parquet_view("/data/spend"))``.

    A version stays for its readers while it is one of the newest ``keep_versions``, and for
    ``keep_for`` after it was replaced, whichever is longer. Raises ValueError below 2 versions,
    ConfigError for a negative ``keep_for``.

    >>> parquet_view("/data/spend").state() is None
    True
    """
    return ParquetView(path, keep_versions=keep_versions, keep_for=keep_for)


def latest_changes(changes: DataFrame) -> DataFrame:
    """Return the newest change of each row of a change feed, including deletes, for a MERGE.

    A row is identified by its partition and the key's bytes, ``_key``; in a feed without that
    column by key, window and valid-from, which are unique there. The newest change has the highest
    offset. In a versioned store a delete is a separate row, which ends the version before it.

    Raises ConfigError if keys are or contain maps, which Spark cannot group, and the feed has no
    ``_key``.
    """
    identity = row_identity(changes)
    refuse_maps(changes, identity)
    rest = [name for name in changes.columns if name not in identity]
    newest = changes.groupBy(*identity).agg(f.max_by(f.struct(*rest), "_offset").alias("_newest"))
    return newest.select(*identity, "_newest.*").select(*changes.columns)


@contextmanager
def locked_and_persisted(
    current: CurrentFile, changes: DataFrame, batch_id: int, state: Callable[[], S]
) -> Iterator[S]:
    """Lock a view and persist the changes of a batch for the duration of the block.

    Yields the state of the view. Raises the errors of the views' ``__call__``.
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
    """Return the source that a view records with a batch. Raise RestoreError for another one."""
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


def check_continues(
    target: str,
    state: ViewStateWithSource | None,
    changes: DataFrame,
    batch_id: int,
    reached: Mapping[int, int],
) -> None:
    """Raise RestoreError if a new checkpoint starts beyond the changes that a view has."""
    if state is None or batch_id > 0:
        return
    is_repeated = state.batch_id == 0 and state.positions == reached
    if not is_repeated:
        check_start(target, start_of(changes), state.positions)


def recorded_source(published: Mapping[str, Any]) -> FeedSource | None:
    """Return the source that ``CURRENT`` records."""
    found = published.get("source")
    return None if found is None else FeedSource(**found)


def check_identity(changes: DataFrame, columns: Sequence[str], target: str) -> None:
    """Raise ConfigError if changes are identified by key bytes and a target does not have them."""
    if KEY_BYTES in changes.columns and KEY_BYTES not in columns:
        raise ConfigError(
            f"{target} has no column {KEY_BYTES} (binary), which identifies the rows of these"
            " changes: it was created for an earlier version of logstate, which compared decoded"
            " keys, so different keys that are equal in Spark (1.0 and 1.00, 0.0 and -0.0) are one"
            " row there. Create a new one with the columns of the change feed, and start the query"
            " with a new checkpoint"
        )


def refuse_versions(changes: DataFrame) -> None:
    """Raise ConfigError for changes of a versioned store, which views and MERGE do not support."""
    if _VERSIONED not in changes.columns:
        return
    raise ConfigError(
        "these are the changes of a versioned store (they have a column valid_from), in which a"
        " deletion ends the version before it and removes no row. A view or a MERGE with one row"
        " per key would show deleted rows forever: it would have to keep every version and set the"
        " end of the previous one. Read the store itself instead, which has valid_from and"
        " valid_to; where('valid_to is null') selects the current rows"
    )


def refuse_maps(changes: DataFrame, identity: Sequence[str]) -> None:
    """Raise ConfigError for rows that are identified by maps, which Spark does not compare."""
    maps = [name for name in identity if _has_map(changes.schema[name].dataType)]
    if maps:
        raise ConfigError(
            f"rows would be identified by the column {maps[0]!r}, which is or contains a map, and"
            f" Spark does not compare maps. Keep the column {KEY_BYTES} of the change feed, the"
            " key's bytes, in the batch for the view or MERGE; a feed of an earlier version of"
            " logstate does not have it: start the query again with this version"
        )


def _has_map(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _has_map(kind.elementType)
    return isinstance(kind, MapType)


def row_identity(changes: DataFrame) -> list[str]:
    """Return the columns that identify rows: the key's bytes if changes have them.

    Decoded keys of most formats are ambiguous: 1.0 and 1.00 are equal in Spark and two rows.
    """
    if KEY_BYTES in changes.columns:
        return [KEY_BYTES, "_partition"]
    return [name for name in changes.columns if name not in _NOT_IDENTITY]


def are_known(reached: dict[int, int], known: dict[int, int]) -> bool:
    """Return whether a view at the ``known`` positions has all changes of a batch."""
    return all(end <= known.get(partition, 0) for partition, end in reached.items())


def reached_positions(known: dict[int, int], reached: dict[int, int]) -> dict[int, int]:
    """Return the positions of a view after a batch."""
    return {n: max(known.get(n, 0), reached.get(n, 0)) for n in {*known, *reached}}


def beyond(changes: DataFrame, positions: dict[int, int]) -> DataFrame:
    """Return the changes at or after positions."""
    for partition, position in sorted(positions.items()):
        changes = changes.where((f.col("_partition") != partition) | (f.col("_offset") >= position))
    return changes
