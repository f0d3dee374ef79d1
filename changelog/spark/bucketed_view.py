"""A view in buckets: an up-to-date copy of a store as parquet, of which a batch rewrites a part.

How it works: rows are assigned to buckets by a hash of their identity, with one file per bucket. A
batch writes its changes as one small file and rewrites only a twentieth of the buckets, those that
were rewritten longest ago, with the changes that wait for them; so every bucket gets its turn. Then
a small file is renamed into place, which names the current files::

    path/CURRENT                         {"version": 7, "batch_id": 7, "positions": {...},
                                          "bases": [5, 0, 7, ...], "changes": [6, 7],
                                          "parts": {"5": "5f0c...", ...}, "schema": ...}
    path/base-00000005-5f0c.../_bucket=0/  the rows of bucket 0 as of version 5
    path/changes-00000007-91d2.../         the newest change of each row that version 7 brought

A reader reads the rows of each bucket from its base, except rows that a later version changed, and
adds the newest changes. ``read`` does that. ``compact`` rewrites all buckets that have waiting
changes; then the bases alone are the view.

Invariants:

- A reader sees one whole version or the next one: an atomic rename replaces ``CURRENT`` after the
  files that it names are complete and on the disk. Files are never modified.
- Replaced files stay for readers for the time that ``retention`` defines.
- Two writers, a query and ``compact``, never write into one directory. On one machine they take
  turns; a writer publishes nothing if another one has published since it began.
- A batch is applied only after the batch before it.
- A change is applied once. Changes below the positions are skipped, so a batch that Spark repeats
  after a crash, or a query that starts again from the beginning, changes nothing.
- A change of version v is applied to a bucket only if its base is older than v.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from logstate.changelog.spark.current_file import CurrentFile, new_part
from logstate.changelog.spark.feed_source import FeedSource
from logstate.changelog.spark.feed_start import positions_of
from logstate.changelog.spark.retention import (
    KEEP_FOR,
    KEEP_VERSIONS,
    Replaced,
    Retention,
    listed,
    paths_of,
)
from logstate.changelog.spark.views import (
    are_known,
    beyond,
    check_continues,
    check_identity,
    latest_changes,
    locked_and_persisted,
    reached_positions,
    recorded_source,
    refuse_maps,
    row_identity,
    source_to_record,
)
from logstate.contracts.errors import ConfigError, StoreAccessError

_BUCKET = "_bucket"
_EMPTY = -1
#: a batch rewrites one in so many buckets
_REWRITTEN = 20
#: an unlisted directory is deleted when so many versions are newer: until then another writer may
#: be writing it, or an earlier version of the library may have kept it for readers
_UNNAMED_VERSIONS = 3


@dataclass(frozen=True)
class BucketedState:
    """The contents of ``CURRENT``."""

    version: int
    batch_id: int
    positions: dict[int, int]
    """Changelog partition to the offset of the first change that the view does not have."""
    bases: tuple[int, ...]
    """The version that wrote the file of each bucket; -1 if it has none yet."""
    changes: tuple[int, ...]
    """Versions with changes that wait for a bucket."""
    schema: str
    """The schema of the changes, as JSON."""
    notes_every_batch: bool = False
    """Whether batches without changes are recorded; earlier versions did not record them."""
    source: FeedSource | None = None
    """The source of its changes; None if unknown, as in earlier versions."""
    parts: dict[str, str] = field(default_factory=dict)
    """Version to the unique part of its directory names; earlier versions have none."""
    replaced: tuple[Replaced, ...] = ()
    """Files of earlier versions that readers may still read."""

    def next(self) -> BucketedState:
        """Return the next version, with unique directory names."""
        version = self.version + 1
        return replace(self, version=version, parts={**self.parts, str(version): new_part()})

    @property
    def dirty(self) -> list[int]:
        """Buckets for which changes may wait, the longest waiting first."""
        newest = max(self.changes, default=_EMPTY)
        waiting = [n for n, base in enumerate(self.bases) if base < newest]
        return sorted(waiting, key=lambda n: self.bases[n])


class BucketedView:
    """A function for ``foreachBatch`` over a change feed, and the view that it updates."""

    def __init__(
        self,
        path: str | Path,
        *,
        buckets: int = 64,
        keep_versions: int = KEEP_VERSIONS,
        keep_for: timedelta = KEEP_FOR,
    ) -> None:
        """``buckets`` is fixed with the first batch; a file of some 50 MB each is a good size.

        A file stays for its readers while one of the newest ``keep_versions`` versions (at least 2)
        has it, and for ``keep_for`` after it was replaced, whichever is longer.
        """
        self._retention = Retention(keep_versions, keep_for)
        if buckets < 1:
            raise ConfigError(f"buckets is {buckets}; a view has at least one")
        self.path = Path(path)
        self._current = CurrentFile(self.path)
        self.buckets = buckets

    def __call__(self, changes: DataFrame, batch_id: int) -> None:
        """Apply one micro-batch. Applying it again changes nothing.

        Raises:
            ConfigError: the store is versioned.
            RestoreError: earlier batches are missing in the view, the view has the changes of
                another topic, or a new checkpoint starts beyond the changes that the view has.
            StoreAccessError: another writer was active at the same time; nothing was published.
        """
        with locked_and_persisted(self._current, changes, batch_id, self.state) as state:
            self._take_in(changes, batch_id, state)
            self._remove_unnamed(state)

    def _take_in(self, changes: DataFrame, batch_id: int, read: BucketedState | None) -> None:
        reached = positions_of(changes)
        source = source_to_record(f"the view at {self.path}", read, changes, batch_id)
        check_continues(f"the view at {self.path}", read, changes, batch_id, reached)
        if read is not None:
            columns = StructType.fromJson(json.loads(read.schema)).fieldNames()
            check_identity(changes, columns, f"the view at {self.path}")
        state = read or self._empty_state(self._with_bucket(changes))
        known = state.positions
        noted = replace(state, batch_id=batch_id, notes_every_batch=True, source=source)
        if are_known(reached, known):
            if noted != read:
                self._current.check_unchanged(read, self.state())
                self._publish(noted)
            return
        fresh = latest_changes(self._with_bucket(beyond(changes, known)))
        state = replace(
            noted.next(),
            positions=reached_positions(known, reached),
            changes=(*state.changes, state.version + 1),
            schema=fresh.schema.json(),
        )
        folders = (
            self._changes_folder(state.version, state),
            self._base_folder(state.version, state),
        )
        with self._current.draft(*folders):
            self.written(fresh.coalesce(1), folders[0])
            state = self._rewrite(changes.sparkSession, state, self._buckets_to_rewrite(state))
            state = self._with_replaced(read, state)
            self._current.sync(*folders)
            self._current.check_unchanged(read, self.state())
        self._publish(state)

    def compact(self, spark: SparkSession) -> None:
        """Rewrite all buckets that have waiting changes; then ``directories()`` are the view.

        A batch on this machine waits until it has finished. Raises StoreAccessError if another
        machine published a batch at the same time; nothing is published then.
        """
        with self._current.locked():
            read = self.state()
            if read is None or not read.changes:
                return
            state = read.next()
            folder = self._base_folder(state.version, state)
            with self._current.draft(folder):
                state = self._with_replaced(read, self._rewrite(spark, state, state.dirty))
                self._current.sync(folder)
                self._current.check_unchanged(read, self.state())
            self._publish(state)
            self._remove_unnamed(read)

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the newest version. Raise FileNotFoundError before the first batch.

        Columns are those of the change feed without ``change_type``.
        """
        state = self.state()
        if state is None:
            raise self._current.missing()
        return self._merged(spark, state, range(self.buckets)).drop(_BUCKET)

    def directories(self) -> list[Path]:
        """Return the directories whose parquet files are the rows, for readers without Spark.

        Raises FileNotFoundError before the first batch, and StoreAccessError while changes wait for
        a bucket; ``compact`` applies these.
        """
        state = self.state()
        if state is None:
            raise self._current.missing()
        if state.changes:
            raise StoreAccessError(
                f"the buckets of the view at {self.path} lack the changes of"
                f" {len(state.changes)} versions: call compact(spark) first, or read(spark)"
            )
        found = (self._bucket(n, base, state) for n, base in enumerate(state.bases))
        return [path for path in found if path.is_dir()]

    def state(self) -> BucketedState | None:
        """Return the newest version and its positions, or None before the first batch."""
        found = self._current.read()
        if found is None:
            return None
        count = len(found.get("bases", ()))
        if count != self.buckets:
            raise ConfigError(
                f"{self.path} holds a view in {count} buckets, and buckets is {self.buckets}: the"
                f" number is fixed with the first batch. Use buckets={count}, or another path"
            )
        found |= {name: tuple(found[name]) for name in ("bases", "changes")}
        found["source"] = recorded_source(found)
        found["replaced"] = listed(found.get("replaced", ()))
        return BucketedState(**found)

    def written(self, frame: DataFrame, directory: Path, *, by_bucket: bool = False) -> None:
        """Write unpublished files; files of a crashed writer are replaced."""
        # The setting of a session may be dynamic, which would keep old files of other buckets.
        writer = frame.write.mode("overwrite").option("partitionOverwriteMode", "static")
        (writer.partitionBy(_BUCKET) if by_bucket else writer).parquet(str(directory))

    def _empty_state(self, changes: DataFrame) -> BucketedState:
        schema = changes.schema.json()
        return BucketedState(_EMPTY, _EMPTY, {}, (_EMPTY,) * self.buckets, (), schema)

    def _buckets_to_rewrite(self, state: BucketedState) -> list[int]:
        """Return the buckets that a batch rewrites; the first batch writes all."""
        if all(base == _EMPTY for base in state.bases):
            return list(range(self.buckets))
        return state.dirty[: max(1, self.buckets // _REWRITTEN)]

    def _rewrite(
        self, spark: SparkSession, state: BucketedState, buckets: Sequence[int]
    ) -> BucketedState:
        """Rewrite some buckets with all their waiting changes and return the new state."""
        rows = self._merged(spark, state, buckets).repartition(len(buckets), _BUCKET)
        self.written(rows, self._base_folder(state.version, state), by_bucket=True)
        rewritten = set(buckets)
        bases = tuple(state.version if n in rewritten else b for n, b in enumerate(state.bases))
        oldest = min(bases)
        changes = tuple(version for version in state.changes if version > oldest)
        named = {str(version) for version in (*bases, *changes, state.version)}
        parts = {version: part for version, part in state.parts.items() if version in named}
        return replace(state, bases=bases, changes=changes, parts=parts)

    def _merged(
        self, spark: SparkSession, state: BucketedState, buckets: Sequence[int]
    ) -> DataFrame:
        """Return the rows of some buckets: unchanged rows of their bases and newer changes."""
        changes = self._pending_changes(spark, state, buckets)
        columns = [name for name in changes.columns if name != "change_type"]
        newest = latest_changes(changes)
        rows = newest.where("change_type = 'update'").select(columns)
        base = self._base_rows(spark, state, buckets, changes.select(columns).schema)
        if base is None:
            return rows
        changed = f.broadcast(newest.select(row_identity(newest)).withColumn("_changed", f.lit(1)))
        same = [base[name].eqNullSafe(changed[name]) for name in row_identity(newest)]
        return base.join(changed, same, "left_anti").select(columns).unionByName(rows)

    def _pending_changes(
        self, spark: SparkSession, state: BucketedState, buckets: Sequence[int]
    ) -> DataFrame:
        """Return the changes that are not in the bases of some buckets."""
        wanted = set(buckets)
        found = spark.createDataFrame([], StructType.fromJson(json.loads(state.schema)))
        for version in state.changes:
            own = [n for n, base in enumerate(state.bases) if n in wanted and base < version]
            changes = spark.read.schema(found.schema).parquet(
                str(self._changes_folder(version, state))
            )
            found = found.unionByName(changes.where(f.col(_BUCKET).isin(own)))
        return found

    def _base_rows(
        self,
        spark: SparkSession,
        state: BucketedState,
        buckets: Sequence[int],
        schema: StructType,
    ) -> DataFrame | None:
        """Return the rows in the files of some buckets; None if there are no files."""
        found = None
        for version in sorted({state.bases[n] for n in buckets}):
            folder = self._base_folder(version, state)
            files = [self._bucket(n, version, state) for n in buckets if state.bases[n] == version]
            there = [str(path) for path in files if path.is_dir()]
            if there:
                reader = spark.read.option("basePath", str(folder)).schema(schema)
                rows = reader.parquet(*there)
                found = rows if found is None else found.unionByName(rows)
        return found

    def _with_bucket(self, changes: DataFrame) -> DataFrame:
        identity = row_identity(changes)
        refuse_maps(changes, identity)
        number = f.pmod(f.xxhash64(*identity), f.lit(self.buckets))
        return changes.withColumn(_BUCKET, number.cast("int"))

    def _publish(self, state: BucketedState) -> None:
        self._current.publish(asdict(state))

    def _with_replaced(self, read: BucketedState | None, state: BucketedState) -> BucketedState:
        """Return the new state with the files that it replaces of the state ``read``."""
        paths: list[Path] = []
        if read is not None:
            moved = [n for n, base in enumerate(read.bases) if base not in (_EMPTY, state.bases[n])]
            paths += (self._bucket(n, read.bases[n], read) for n in moved)
            gone = sorted(set(read.changes) - set(state.changes))
            paths += (self._changes_folder(version, read) for version in gone)
        elif not state.changes:  # the buckets have the changes of the first batch already
            paths.append(self._changes_folder(state.version, state))
        names = [path.relative_to(self.path).as_posix() for path in paths]
        before = read.replaced if read is not None else ()
        return replace(state, replaced=self._retention.after(before, state.version, names))

    def _remove_unnamed(self, read: BucketedState | None) -> None:
        """Delete files that the newest version no longer lists, and files of crashed writers."""
        state = self.state()
        if state is None:
            return
        kept = paths_of(state.replaced)
        for path in paths_of(read.replaced if read is not None else ()) - kept:
            shutil.rmtree(self.path / path, ignore_errors=True)
        named = {self._changes_folder(version, state).name for version in state.changes}
        named |= {self._base_folder(version, state).name for version in state.bases}
        named |= {path.partition("/")[0] for path in kept}
        for directory in (*self.path.glob("base-*"), *self.path.glob("changes-*")):
            is_old = _version_of(directory) < state.version - _UNNAMED_VERSIONS
            if is_old and directory.name not in named:
                shutil.rmtree(directory, ignore_errors=True)

    def _bucket(self, bucket: int, base: int, state: BucketedState) -> Path:
        return self._base_folder(base, state) / f"{_BUCKET}={bucket}"

    def _base_folder(self, version: int, state: BucketedState) -> Path:
        return self._folder("base", version, state)

    def _changes_folder(self, version: int, state: BucketedState) -> Path:
        return self._folder("changes", version, state)

    def _folder(self, kind: str, version: int, state: BucketedState) -> Path:
        name, part = f"{kind}-{version:08d}", state.parts.get(str(version))
        return self.path / (name if part is None else f"{name}-{part}")


def _version_of(directory: Path) -> int:
    return int(directory.name.split("-")[1])


def bucketed_view(
    path: str | Path,
    *,
    buckets: int = 64,
    keep_versions: int = KEEP_VERSIONS,
    keep_for: timedelta = KEEP_FOR,
) -> BucketedView:
    """Return a view for ``changes.writeStream.foreachBatch(bucketed_view("/data/spend"))``.

    A file stays for its readers while one of the newest ``keep_versions`` versions has it, and for
    ``keep_for`` after it was replaced, whichever is longer. Raises ConfigError for less than one
    bucket or a negative ``keep_for``, ValueError below 2 versions.

    >>> bucketed_view("/data/spend").state() is None
    True
    """
    return BucketedView(path, buckets=buckets, keep_versions=keep_versions, keep_for=keep_for)
