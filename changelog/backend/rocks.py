"""RocksDB as the medium of stores: one database per task, rows and positions in one column family.

One column family, because only then do rows and position survive a killed process together without
further care. The write-ahead log is on and not synced: a write that returned survives the process,
and after a power cut the database holds a prefix of the writes, whose position says which. Nothing
uncommitted is ever written here.

What RocksDB does not do by itself, and this module adds:

- errors are distinguished by their text, as the binding gives nothing else: a damaged file is
  StoreCorruptedError, a locked directory StateDirectoryError, the rest StoreError;
- an iterator that ends says whether it ended for an error: a damaged block otherwise looks like the
  end of the data;
- live iterators and snapshots would keep the directory locked after closing: they are registered,
  and closing ends them; a reader then gets an error, never a short answer;
- range deletions wait in memory and cost every read, the more of them the more: they are flushed by
  number, long before the memory for writes is full;
- a child process that is forked once a database was open can use none: RocksDB's threads do not
  exist there and flushing would wait for ever.

All databases of the process share one cache and one bound for unflushed data (see
:class:`RocksMemory`): memory does not grow with the number of tasks.
"""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import rocksdict

from logstate.changelog.backend.backend import KeyRange
from logstate.changelog.backend.rocks_cursor import Cursor, PinnedCursor, PinnedView, rows_of, seek
from logstate.changelog.backend.rocks_errors import ClosedDatabase, explained, threads_missing
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import ConfigError
from logstate.contracts.rocksdb_config import DEFAULT_ROCKSDB, RocksDbConfig

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB
#: Expiry deletes ranges. Measured after 200 retention periods with few records in each: a put takes
#: 25 % longer than at first where none is flushed, 9 % with 64 per flush, 1 % with 16.
_RANGES_PER_FLUSH: Final = 16

#: Measured with rows of 110 bytes in key order: a file costs some syncs and 0.75 us a row, a write
#: 0.75 us a row and half of that again in the background.
_INGEST_ROWS_MIN: Final = 20_000
#: Blocks of files that compaction deletes leave the cache at once. By default they stay until it is
#: full, so memory grows to the bound however few rows there are. The binding has no setter.
_CHANGED_AT_RUN_TIME: Final = {"uncache_aggressiveness": "300"}
#: a file on its way into the database; found at an opening, it was not taken over
_LOAD_FILE: Final = "loading.rows"

_open_backends: weakref.WeakSet[RocksBackend] = weakref.WeakSet()
_kept_for_ever: list[object] = []
#: whether a database was ever opened here; and whether that was before this process was forked
_is_used = threading.Event()
_is_forked_after_use = threading.Event()


class RocksMemory:
    """The memory that all databases of the process share.

    ``cache_bytes`` bounds cached blocks, indexes and filters AND unflushed writes, which are
    charged to the same cache; three eighths are the part that unflushed writes may take.
    """

    def __init__(self, cache_bytes: int = 128 * _MIB) -> None:
        self.cache_bytes = cache_bytes
        self.cache = rocksdict.Cache(cache_bytes)
        # Stalling would block the one thread that could make room; the bound is soft instead.
        self.write_buffers = rocksdict.WriteBufferManager.new_write_buffer_manager_with_cache(
            _buffer_share(cache_bytes), False, self.cache
        )

    def resize(self, cache_bytes: int, write_buffer_bytes: int | None = None) -> None:
        """Change both bounds, for the databases that are open too."""
        self.cache_bytes = cache_bytes
        self.cache.set_capacity(cache_bytes)
        self.write_buffers.set_buffer_size(write_buffer_bytes or _buffer_share(cache_bytes))

    def used_bytes(self) -> int:
        """Bytes of blocks and unflushed writes held now."""
        return int(self.cache.get_usage())


def _buffer_share(cache_bytes: int) -> int:
    return cache_bytes * 3 // 8


_shared: list[RocksMemory] = []
_shared_lock = threading.Lock()


def shared_memory(config: RocksDbConfig = DEFAULT_ROCKSDB) -> RocksMemory:
    """The process-wide memory, made at first use, with the bounds of ``config`` if it has any."""
    cache_bytes, buffer_bytes = config.cache_bytes, config.write_buffer_bytes
    with _shared_lock:
        if not _shared:
            _shared.append(RocksMemory())
        memory = _shared[0]
        if cache_bytes is not None or buffer_bytes is not None:
            memory.resize(cache_bytes or memory.cache_bytes, buffer_bytes)
        return memory


def _options(memory: RocksMemory, config: RocksDbConfig) -> rocksdict.Options:
    options = rocksdict.Options(raw_mode=True)  # the other mode unpickles what it reads
    options.create_if_missing(True)
    # Applies are rare and deduplicated, so a small memtable is enough, and 50 tasks stay small.
    options.set_write_buffer_size(config.memtable_bytes)
    options.set_max_write_buffer_number(3)
    # A memtable takes memory in blocks of this size, all of which counts as used. With the default
    # of 1 MiB the bound for unflushed writes was reached by 45 databases without a row.
    options.set_arena_block_size(64 * _KIB)
    options.set_write_buffer_manager(memory.write_buffers)
    # The log only has to cover unflushed writes; a reopen replays at most this much.
    options.set_max_total_wal_size(64 * _MIB)
    options.set_wal_recovery_mode(rocksdict.DBRecoveryMode.point_in_time())
    # Rows are alike. Measured, 300,000 JSON rows of 100 bytes: lz4 makes them a fifth of the size,
    # and a read that finds its row takes 5.1 us, uncompressed 5.2 us, with zstd 8.2 us.
    options.set_compression_type(getattr(rocksdict.DBCompressionType, config.compression)())
    options.set_max_background_jobs(config.background_jobs)
    options.set_max_open_files(config.max_open_files)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(_MIB)
    options.set_stats_dump_period_sec(0)
    options.set_skip_stats_update_on_db_open(True)
    # Closing an iterator must not delete files on the thread that processes records.
    options.set_avoid_unnecessary_blocking_io(True)
    table = rocksdict.BlockBasedOptions()
    table.set_block_cache(memory.cache)
    # The first read of a key is often a miss (a new key): with the filter 1.1 us, without 5.7 us.
    if config.bloom_filter_bits:
        table.set_bloom_filter(config.bloom_filter_bits, False)
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    options.set_block_based_table_factory(table)
    if config.configure is not None:
        try:
            config.configure(options)
        except Exception as error:
            raise ConfigError(
                f"rocksdb: the function {config.configure!r} of configure= failed:"
                f" {type(error).__name__}: {text_of(error)}. It receives rocksdict.Options"
            ) from error
    return options


class RocksBackend:
    """A StoreBackend over the RocksDB database in ``path``, which it creates when missing.

    Raises StateDirectoryError when another process (or this one) has the directory open,
    StoreCorruptedError when its files are damaged.
    """

    ingest_rows_min: int | None = _INGEST_ROWS_MIN

    def __init__(
        self,
        path: Path | str,
        memory: RocksMemory | None = None,
        *,
        config: RocksDbConfig = DEFAULT_ROCKSDB,
    ) -> None:
        self.path = Path(path)
        # The cache lives at least as long as its users.
        self._memory = memory or shared_memory(config)
        self._lock = threading.Lock()
        self._cursors: weakref.WeakSet[Cursor] = weakref.WeakSet()
        self._snapshots: weakref.WeakSet[RocksSnapshot] = weakref.WeakSet()
        if _is_forked_after_use.is_set():
            raise threads_missing(self.path)
        _is_used.set()
        options = _options(self._memory, config)
        try:
            self._database: Any = _open_database(self.path, options)
            self._database.set_options(_CHANGED_AT_RUN_TIME)
        except Exception as error:
            raise explained(error, self.path, "open") from error
        self._options = options
        self._get: Any = self._database.get
        self._unflushed_ranges = 0
        (self.path / _LOAD_FILE).unlink(missing_ok=True)
        _open_backends.add(self)

    def get(self, key: bytes) -> bytes | None:
        """The row, or None."""
        try:
            value: bytes | None = self._get(key)
            return value
        except Exception as error:
            raise explained(error, self.path, "read") from error

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """The rows in the order of ``keys``, read in one call."""
        try:
            values: list[bytes | None] = self._get(keys)
            return values
        except Exception as error:
            raise explained(error, self.path, "read") from error

    def scan(
        self, lower: bytes, upper: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows of ``[lower, upper)`` as of this call."""
        bounds = rocksdict.ReadOptions()
        bounds.set_iterate_upper_bound(upper)  # a lower bound has no effect in this binding
        try:
            iterator = self._database.iter(bounds)
            seek(iterator, lower, upper, reverse=reverse)
        except Exception as error:
            raise explained(error, self.path, "read") from error
        cursor = Cursor(iterator, self.path, lower, upper, reverse=reverse)
        return rows_of(cursor, lambda: self._watch(cursor))

    def write(self, rows: Mapping[bytes, bytes | None], ranges: Sequence[KeyRange] = ()) -> None:
        """Put (None = delete) all rows, then delete the ranges, in one atomic write."""
        batch = rocksdict.WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        # In key order a row costs RocksDB 0.25 us, in any other 1.4 us; sorting takes 0.45 us.
        for key in sorted(rows):
            value = rows[key]
            if value is None:
                delete(key)
            else:
                put(key, value)
        for lower, upper in ranges:
            batch.delete_range(lower, upper)
        try:
            self._database.write(batch)
            self._unflushed_ranges += len(ranges)
            if self._unflushed_ranges >= _RANGES_PER_FLUSH:
                self._unflushed_ranges = 0
                self._database.flush(wait=False)
        except Exception as error:
            raise explained(error, self.path, "write") from error

    def ingest(self, rows: Mapping[bytes, bytes | None], mark: Mapping[bytes, bytes]) -> None:
        """Write ``mark`` for good, then take over ``rows`` as one sorted file.

        The file is synced and so is its arrival; without the sync of the mark, which travels
        through the write-ahead log, a power cut could keep the rows and lose the mark.
        """
        file = self.path / _LOAD_FILE
        try:
            self._write_file(file, rows)
            self.write(mark)
            self._database.flush_wal(True)
            how = rocksdict.IngestExternalFileOptions()
            how.set_move_files(True)
            self._database.ingest_external_file([str(file)], how)
            file.unlink(missing_ok=True)  # taken over by a second name
        except Exception as error:
            raise explained(error, self.path, "write") from error

    def _write_file(self, file: Path, rows: Mapping[bytes, bytes | None]) -> None:
        file.unlink(missing_ok=True)
        writer = rocksdict.SstFileWriter(self._options)
        writer.open(str(file))
        keys = sorted(rows)
        if None in rows.values():
            for key in keys:
                value = rows[key]
                if value is None:
                    del writer[key]
                else:
                    writer[key] = value
        else:  # the loop in C
            deque(map(writer.__setitem__, keys, map(rows.__getitem__, keys)), maxlen=0)
        writer.finish()

    def snapshot(self) -> RocksSnapshot:
        """A view of the rows as they are now, readable from any thread until released.

        Take it on the thread that writes: nothing may be written between its two halves.
        """
        try:
            snapshot = RocksSnapshot(self._database.snapshot(), self._database.iter(), self.path)
        except Exception as error:
            raise explained(error, self.path, "read") from error
        with self._lock:
            self._snapshots.add(snapshot)
        return snapshot

    def flush(self) -> None:
        """Write the memtables to table files."""
        try:
            self._database.flush()
        except Exception as error:
            raise explained(error, self.path, "flush") from error

    def close(self) -> None:
        """Flush, end all iterators and snapshots, give the directory free; idempotent."""
        with self._lock:
            database, self._database = self._database, ClosedDatabase(self.path)
            if isinstance(database, ClosedDatabase):
                return
            self._get = self._database.get
            for snapshot in list(self._snapshots):
                snapshot.release()
            for cursor in list(self._cursors):
                cursor.end()
        _open_backends.discard(self)
        try:
            database.close()
        except Exception as error:
            raise explained(error, self.path, "close") from error

    def _watch(self, cursor: Cursor) -> None:
        with self._lock:
            self._cursors.add(cursor)

    def abandon(self) -> None:
        """In a forked child: keep the objects, so that nothing closes them, and refuse all use."""
        _kept_for_ever.append((self._database, list(self._snapshots), list(self._cursors)))
        self._database = ClosedDatabase(self.path, is_forked=True)
        self._get = self._database.get


def _open_database(path: Path, options: Any) -> Any:
    """The database; its lock may still be with one of this process that waits to be collected."""
    for is_last in (False, True):
        try:
            # Options hold only for the column families named at THIS open, the default one too.
            return rocksdict.Rdict(str(path), options, column_families={"default": options})
        except Exception as error:
            if is_last or "lock hold by current process" not in str(error):
                raise
        gc.collect()
    raise AssertionError


class RocksSnapshot:
    """Rows fixed at one moment: a RocksDB snapshot for single rows, a pinned iterator for scans."""

    def __init__(self, view: Any, iterator: Any, path: Path) -> None:
        self._path = path
        self._view = view
        self._pinned = PinnedView(iterator, path)

    def get(self, key: bytes) -> bytes | None:
        """The row, or None; StoreUnavailableError after ``release``."""
        try:
            value: bytes = self._view[key]
            return value
        except Exception as error:
            if str(error) == "key not found":
                return None
            raise explained(error, self._path, "read") from error

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """The rows in the order of ``keys``."""
        return [self.get(key) for key in keys]

    def scan(
        self, lower: bytes, upper: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows of ``[lower, upper)``."""
        return rows_of(PinnedCursor(self._pinned, lower, upper, reverse=reverse))

    def release(self) -> None:
        """Let RocksDB drop what only this snapshot still needs; idempotent."""
        self._view = ClosedDatabase(self._path)
        self._pinned.end()


def _abandon_all() -> None:
    if _is_used.is_set():
        _is_forked_after_use.set()
    for backend in list(_open_backends):
        backend.abandon()


os.register_at_fork(after_in_child=_abandon_all)
