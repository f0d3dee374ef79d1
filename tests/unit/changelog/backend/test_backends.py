"""What every medium promises, asked of both: memory and RocksDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logstate.changelog.backend.backend import StoreBackend
from logstate.changelog.backend.memory import MemoryBackend
from logstate.changelog.backend.rocks import RocksBackend
from logstate.contracts.errors import StoreUnavailableError

MakeBackend = Callable[[], StoreBackend]


@pytest.fixture(params=["memory", "rocks"])
def make_backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeBackend]:
    made: list[StoreBackend] = []

    def make() -> StoreBackend:
        directory = tmp_path / str(len(made))
        made.append(MemoryBackend() if request.param == "memory" else RocksBackend(directory))
        return made[-1]

    yield make
    for backend in made:
        backend.close()


@pytest.fixture
def backend(make_backend: MakeBackend) -> StoreBackend:
    return make_backend()


def test_a_row_is_read_back_and_an_absent_one_is_none(backend: StoreBackend) -> None:
    backend.write({b"a": b"1", b"empty": b""})
    assert backend.get(b"a") == b"1"
    assert backend.get(b"empty") == b""
    assert backend.get(b"b") is None


def test_many_rows_come_in_the_order_of_the_keys_asked_for(backend: StoreBackend) -> None:
    backend.write({b"a": b"1", b"b": b"2"})
    assert backend.get_many([b"b", b"nothing", b"a", b"b"]) == [b"2", None, b"1", b"2"]


def test_writing_none_deletes(backend: StoreBackend) -> None:
    backend.write({b"a": b"1"})
    backend.write({b"a": None, b"never there": None})
    assert backend.get(b"a") is None


def test_a_scan_includes_its_lower_bound_and_excludes_its_upper(backend: StoreBackend) -> None:
    backend.write({key: key for key in (b"a", b"aa", b"b", b"c")})
    assert [key for key, _ in backend.scan(b"aa", b"c")] == [b"aa", b"b"]
    assert [key for key, _ in backend.scan(b"aa", b"c", reverse=True)] == [b"b", b"aa"]


def test_an_empty_range_gives_no_rows(backend: StoreBackend) -> None:
    backend.write({b"a": b"1", b"b": b"2"})
    assert list(backend.scan(b"aa", b"ab")) == []
    assert list(backend.scan(b"b", b"b", reverse=True)) == []


def test_ranges_are_deleted_after_the_rows_of_the_same_write(backend: StoreBackend) -> None:
    backend.write({b"a": b"old", b"b": b"old", b"c": b"old"})
    backend.write({b"a": b"new", b"c": b"new"}, [(b"a", b"c")])
    assert list(backend.scan(b"", b"z")) == [(b"c", b"new")]


@pytest.mark.parametrize("rows", [10, 5_000])
def test_a_scan_sees_the_rows_as_they_were_when_it_was_opened(
    backend: StoreBackend, rows: int
) -> None:
    keys = [b"%06d" % i for i in range(rows)]
    backend.write(dict.fromkeys(keys, b"old"))
    scan = backend.scan(b"", b"z")
    backward = backend.scan(b"", b"z", reverse=True)
    backend.write({**dict.fromkeys(keys, b"new"), keys[-1]: None, b"9999999": b"fresh"})
    assert list(scan) == [(key, b"old") for key in keys]
    assert list(backward) == [(key, b"old") for key in reversed(keys)]


def test_a_snapshot_stays_as_it_was_taken(backend: StoreBackend) -> None:
    backend.write({b"a": b"1", b"b": b"2"})
    snapshot = backend.snapshot()
    backend.write({b"a": b"changed", b"c": b"3"}, [(b"b", b"bb")])
    assert snapshot.get(b"a") == b"1"
    assert snapshot.get(b"c") is None
    assert snapshot.get_many([b"b", b"c"]) == [b"2", None]
    assert list(snapshot.scan(b"", b"z")) == [(b"a", b"1"), (b"b", b"2")]
    assert [key for key, _ in snapshot.scan(b"", b"z", reverse=True)] == [b"b", b"a"]
    snapshot.release()


def test_a_released_snapshot_refuses_to_read(backend: StoreBackend) -> None:
    backend.write({b"a": b"1"})
    snapshot = backend.snapshot()
    snapshot.release()
    snapshot.release()
    with pytest.raises(StoreUnavailableError):
        snapshot.get(b"a")
    with pytest.raises(StoreUnavailableError):
        list(snapshot.scan(b"", b"z"))


def test_closing_twice_is_allowed(backend: StoreBackend) -> None:
    backend.close()
    backend.close()


keys = st.binary(min_size=1, max_size=3)
writes = st.lists(
    st.tuples(
        st.dictionaries(keys, st.none() | st.binary(max_size=3), max_size=6),
        st.lists(st.tuples(keys, keys), max_size=2),
    ),
    max_size=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(writes=writes, bounds=st.tuples(keys, keys))
def test_any_writes_leave_the_rows_that_a_sorted_dict_would_hold(
    make_backend: MakeBackend,
    writes: list[tuple[dict[bytes, bytes | None], list[tuple[bytes, bytes]]]],
    bounds: tuple[bytes, bytes],
) -> None:
    backend = make_backend()
    model: dict[bytes, bytes] = {}
    for rows, ranges in writes:
        ordered = [(min(pair), max(pair)) for pair in ranges]
        backend.write(rows, ordered)
        for key, value in rows.items():
            if value is None:
                model.pop(key, None)
            else:
                model[key] = value
        model = {
            key: value
            for key, value in model.items()
            if not any(lower <= key < upper for lower, upper in ordered)
        }
    lower, upper = min(bounds), max(bounds)
    expected = sorted((k, v) for k, v in model.items() if lower <= k < upper)
    assert list(backend.scan(lower, upper)) == expected
    assert list(backend.scan(lower, upper, reverse=True)) == expected[::-1]
    assert backend.get_many(sorted(model)) == [model[key] for key in sorted(model)]
    backend.close()
