"""What `RocksDbConfig` decides about the files and the memory of the databases."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from logstate.changelog.backend.rocks import RocksBackend, shared_memory
from logstate.contracts.errors import ConfigError
from logstate.contracts.rocksdb_config import Compression, RocksDbConfig


def sst_bytes(path: Path, config: RocksDbConfig) -> int:
    backend = RocksBackend(path, config=config)
    backend.ingest({b"key%06d" % i: b"alike" * 20 for i in range(20_000)}, {b"mark": b"1"})
    backend.close()
    return sum(file.stat().st_size for file in path.glob("*.sst"))


def test_the_settings_decide_how_files_are_written(tmp_path: Path) -> None:
    asked: list[Any] = []
    packed = RocksDbConfig(compression="zstd", configure=asked.append)
    plain = RocksDbConfig(compression="none", bloom_filter_bits=0)
    assert sst_bytes(tmp_path / "a", packed) * 4 < sst_bytes(tmp_path / "b", plain)
    (options,) = asked
    assert type(options).__name__ == "Options"


def test_a_database_is_read_whatever_it_was_compressed_with(tmp_path: Path) -> None:
    for compression in get_args(Compression):
        sst_bytes(tmp_path / "db", RocksDbConfig(compression=compression))
    backend = RocksBackend(tmp_path / "db")
    assert backend.get(b"key000007") == b"alike" * 20
    backend.close()


def test_a_function_that_fails_is_named_before_the_database_is_opened(tmp_path: Path) -> None:
    def misspelled(options: Any) -> None:
        options.set_write_buffer_sice(1)

    with pytest.raises(ConfigError, match=r"misspelled.*failed: AttributeError.*sice"):
        RocksBackend(tmp_path / "db", config=RocksDbConfig(configure=misspelled))
    RocksBackend(tmp_path / "db").close()


def test_an_application_can_size_the_memory_of_all_databases(tmp_path: Path) -> None:
    memory = shared_memory()
    before = memory.cache_bytes
    try:
        RocksBackend(tmp_path / "a", config=RocksDbConfig(cache_bytes=32 << 20)).close()
        assert memory.cache_bytes == 32 << 20
        assert memory.write_buffers.get_buffer_size() == 12 << 20
        RocksBackend(tmp_path / "b").close()
        assert memory.cache_bytes == 32 << 20, "an application without the setting changes nothing"
    finally:
        memory.resize(before)
