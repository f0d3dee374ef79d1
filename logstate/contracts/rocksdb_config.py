"""The settings of RocksDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from logstate.contracts.setting_rules import choice, count, shown

Compression = Literal["lz4", "lz4hc", "snappy", "zlib", "zstd", "none"]


@dataclass(frozen=True, kw_only=True)
class RocksDbConfig:
    """How RocksDB stores the rows of an instance; for ``Application(rocksdb=...)``.

    Each task has one database for all its stores. All databases of a process share one cache.

    Args:
        cache_bytes: memory for blocks, indexes, filters and unflushed writes of all databases of
            the instance; its worker processes share it equally. None: 128 MiB for each process.
        write_buffer_bytes: the part of it that unflushed writes may take. None: three eighths.
        memtable_bytes: a database flushes its newest rows to a file when they take so many bytes.
        compression: of the files. A change applies to files that are written afterwards.
        bloom_filter_bits: per row. A filter saves reads of rows that do not exist; 0 has none.
        max_open_files: of each database.
        background_jobs: threads that flush and compact, of each database.
        configure: a function that receives the ``rocksdict.Options`` of a database before it is
            opened, after the settings above (Kafka Streams' ``RocksDBConfigSetter``). Options that
            rows depend on, such as a comparator or a merge operator, must not be changed. With
            several workers it must be a function of a module.

    Example:
        >>> RocksDbConfig(cache_bytes=512 << 20, compression="zstd").bloom_filter_bits
        10
    """

    cache_bytes: int | None = None
    write_buffer_bytes: int | None = None
    memtable_bytes: int = 16 << 20
    compression: Compression = "lz4"
    bloom_filter_bits: int = 10
    #: a default process limit of 1,024 must hold several tasks
    max_open_files: int = 256
    background_jobs: int = 2
    configure: Callable[[Any], None] | None = None

    def share_of(self, workers: int) -> RocksDbConfig:
        """Return the settings of one of several worker processes."""
        given = (self.cache_bytes, self.write_buffer_bytes)
        cache, buffers = (None if one is None else max(1, one // workers) for one in given)
        return replace(self, cache_bytes=cache, write_buffer_bytes=buffers)

    def problems(self) -> Iterator[str]:
        """Yield what is wrong; the types of the arguments are not enforced."""
        for name, least in (
            *(("cache_bytes", 1 << 20), ("write_buffer_bytes", 1 << 20)),
            *(("memtable_bytes", 64 << 10), ("bloom_filter_bits", 0)),
            *(("max_open_files", 16), ("background_jobs", 1)),
        ):
            given = getattr(self, name)
            if given is not None or name not in ("cache_bytes", "write_buffer_bytes"):
                yield from count(f"rocksdb: {name}", given, least=least)
        yield from choice("rocksdb: compression", self.compression, allowed=get_args(Compression))
        configure: object = self.configure
        if configure is not None and not callable(configure):
            yield (
                "rocksdb: configure must be a function of rocksdict.Options; got"
                f" {shown(configure)}"
            )


DEFAULT_ROCKSDB = RocksDbConfig()


def rocksdb_config(name: str, given: object) -> Iterator[str]:
    """Yield the problems of the setting ``rocksdb``."""
    if not isinstance(given, RocksDbConfig):
        yield f"{name} must be RocksDbConfig(...); got {shown(given)}"
    else:
        yield from given.problems()
