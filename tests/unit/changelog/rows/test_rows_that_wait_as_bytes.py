"""Rows of frozen structs: encoded at the put, logged at the commit, read as their bytes say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from logstate.changelog.rows.writes import LoggedWrite
from logstate.contracts.errors import SerdeError
from logstate.contracts.stores import ValueAndTimestamp
from logstate.serdes.json_serde import json_of
from tests.unit.changelog.store_bench import MEDIA, StoreBench
from tests.unit.changelog.stores.test_key_value_stores import spec_of


class Total(msgspec.Struct, frozen=True, omit_defaults=True):
    """Immutable, but not told from plain fields alone."""

    count: int
    sum: float
    places: tuple[str, ...] = ()


TOTAL = json_of(Total)


@pytest.fixture(params=MEDIA)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreBench]:
    directory = None if request.param == "memory" else tmp_path / "db"
    made = StoreBench(spec_of("timestamped_key_value", TOTAL), directory)
    yield made
    made.close()


def row(count: int, total: float = 0.5, timestamp: int = 7) -> ValueAndTimestamp[Any]:
    return ValueAndTimestamp(Total(count, total), timestamp)


def test_a_hot_row_is_logged_once_per_commit_with_its_last_value(bench: StoreBench) -> None:
    for count in range(100):
        bench.store.put("a", row(count, timestamp=count))

    assert bench.commit() == [LoggedWrite(b"a", b'{"count":99,"sum":0.5}', 99)]
    assert bench.commit() == []


def test_what_is_read_is_what_the_bytes_say_and_not_what_was_put(bench: StoreBench) -> None:
    bench.store.put("a", row(1, 2))  # an int where a float is declared

    found = bench.store.get("a").value

    assert type(found.sum) is float
    bench.commit()
    assert type(bench.store.get("a").value.sum) is float
    bench.state.drop_caches()
    assert bench.store.get("a") == row(1, 2.0)


def test_a_row_is_decoded_once_between_two_writes(bench: StoreBench) -> None:
    bench.store.put("a", row(1))
    assert bench.store.get("a") is bench.store.get("a")
    bench.commit()
    assert bench.store.get("a") is bench.store.get("a")
    bench.store.put("a", row(2))
    assert bench.store.get("a") == row(2)


def test_a_value_that_cannot_be_encoded_fails_at_the_put_and_changes_nothing(
    bench: StoreBench,
) -> None:
    bench.store.put("a", row(1))
    for wrong in (Total(1, float("nan")), {"count": 1}):
        with pytest.raises(SerdeError):
            bench.store.put("a", ValueAndTimestamp(wrong, 8))

    assert bench.store.get("a") == row(1)
    assert bench.commit() == [LoggedWrite(b"a", b'{"count":1,"sum":0.5}', 7)]


def test_a_deletion_overtakes_what_is_pending(bench: StoreBench) -> None:
    bench.context.timestamp = 30
    bench.store.put("a", row(1))
    bench.store.put("a", None)
    assert bench.store.get("a") is None
    bench.store.put("b", row(2))
    bench.store.put("b", None)
    bench.store.put("b", row(3))

    assert bench.commit() == [
        LoggedWrite(b"a", None, 30),
        LoggedWrite(b"b", b'{"count":3,"sum":0.5}', 7),
    ]
    assert list(bench.store.all()) == [("b", row(3))]


def test_what_is_pending_is_seen_by_scans(bench: StoreBench) -> None:
    bench.store.put("b", row(2))
    bench.store.put("a", row(1))

    assert [key for key, _ in bench.store.all()] == ["a", "b"]
    bench.store.put("a", row(3))
    assert bench.store.get("a") == row(3)


def test_an_abort_forgets_what_was_not_committed(bench: StoreBench) -> None:
    bench.store.put("a", row(1))
    bench.commit(applies=False)
    bench.store.put("a", row(2))
    bench.store.put("b", row(2))
    bench.discard()

    assert bench.store.get("a") == row(1)
    assert bench.store.get("b") is None
    assert bench.commit() == []


def test_dropping_caches_keeps_what_waits_for_the_commit(bench: StoreBench) -> None:
    bench.store.put("a", row(1))
    bench.state.drop_caches()

    assert bench.store.get("a") == row(1)
    assert len(bench.commit()) == 1


def test_every_write_is_logged_where_that_is_asked_for(tmp_path: Path) -> None:
    bench = StoreBench(spec_of("timestamped_key_value", TOTAL), logs_every_write=True)
    for count in range(3):
        bench.store.put("a", row(count))
        assert bench.store.get("a") == row(count)

    assert len(bench.commit()) == 3
    bench.close()


def test_a_row_with_headers_keeps_them(tmp_path: Path) -> None:
    spec = spec_of("timestamped_key_value", TOTAL, with_headers=True)
    bench = StoreBench(spec, tmp_path / "db")
    with_headers = ValueAndTimestamp(Total(1, 0.5), 7, [("trace", b"x")])
    bench.store.put("a", row(1))
    bench.store.put("a", with_headers)
    bench.store.put("b", row(2))
    bench.commit()
    bench.reopen()

    assert bench.store.get("a") == with_headers
    assert bench.store.get("b") == row(2)
    bench.close()
