"""Key-value stores against a dict, plain and timestamped, in memory and on RocksDB."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstate import serdes
from logstate.changelog.rows.writes import LoggedWrite
from logstate.contracts.errors import SerdeError
from logstate.contracts.stores import StoreSpec, ValueAndTimestamp
from tests.examples_tried import at_most
from tests.unit.changelog.store_bench import MEDIA, StoreBench


class Total(msgspec.Struct, frozen=True):
    count: int
    sum: float


TOTAL = serdes.json_of(Total)


def spec_of(
    kind: str = "key_value", value: serdes.Serde[Any] = serdes.int64, **options: Any
) -> StoreSpec:
    return StoreSpec("counts", kind, serdes.string, value, **options)


@pytest.fixture(params=MEDIA)
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "db"


@pytest.fixture
def bench(directory: Path | None) -> Iterator[StoreBench]:
    made = StoreBench(spec_of(), directory)
    yield made
    made.close()


@pytest.fixture
def timestamped(directory: Path | None) -> Iterator[StoreBench]:
    made = StoreBench(spec_of("timestamped_key_value"), directory)
    yield made
    made.close()


def test_a_value_is_read_back_before_and_after_its_commit(bench: StoreBench) -> None:
    bench.store.put("a", 1)
    assert bench.store.get("a") == 1
    bench.commit()
    assert bench.store.get("a") == 1
    assert bench.store.get("b") is None


def test_putting_none_deletes_and_logs_a_tombstone_with_the_records_time(bench: StoreBench) -> None:
    bench.store.put("a", 1)
    bench.commit()
    bench.context.timestamp = 7
    bench.store.put("a", None)
    assert bench.store.get("a") is None
    assert bench.commit() == [LoggedWrite(b"a", None, 7)]


def test_delete_returns_the_row_and_logs_even_where_there_was_none(bench: StoreBench) -> None:
    bench.store.put("a", 1)
    assert bench.store.delete("a") == 1
    assert bench.store.delete("b") is None
    assert [write.key for write in bench.commit()] == [b"a", b"b"]


def test_put_if_absent_keeps_the_row_that_is_there_and_logs_nothing_then(bench: StoreBench) -> None:
    assert bench.store.put_if_absent("a", 1) is None
    bench.commit()
    assert bench.store.put_if_absent("a", 2) == 1
    assert bench.store.get("a") == 1
    assert bench.commit() == []


def test_a_key_is_logged_once_per_commit_with_its_last_value(bench: StoreBench) -> None:
    for value in range(1000):
        bench.context.timestamp = value
        bench.store.put("a", value)
    assert bench.commit() == [LoggedWrite(b"a", (999).to_bytes(8, "big"), 999)]


def test_put_all_takes_a_mapping_and_refuses_what_is_no_pair() -> None:
    bench = StoreBench(spec_of(), None)
    bench.store.put_all({"a": 1, "b": None})
    assert list(bench.store.all()) == [("a", 1)]
    for wrong in (["ab"], [("a", 1, 2)], [1]):
        with pytest.raises(TypeError, match=r"put_all\(\) of store 'counts' takes pairs"):
            bench.store.put_all(wrong)
    assert list(bench.store.all()) == [("a", 1)]


def test_every_write_is_logged_where_that_is_asked_for(directory: Path | None) -> None:
    bench = StoreBench(spec_of(), directory, logs_every_write=True)
    bench.store.put_all([("a", 1), ("a", 2), ("b", 3)])
    assert [write.key for write in bench.commit()] == [b"a", b"a", b"b"]
    bench.close()


def test_ranges_are_inclusive_at_both_ends_and_open_at_none(bench: StoreBench) -> None:
    bench.store.put_all([(key, number) for number, key in enumerate(["a", "aa", "b", "c"])])
    assert [key for key, _ in bench.store.range("aa", "b")] == ["aa", "b"]
    assert [key for key, _ in bench.store.range(None, "aa")] == ["a", "aa"]
    assert [key for key, _ in bench.store.reverse_range("b")] == ["c", "b"]
    assert list(bench.store.range("c", "a")) == []


def test_order_is_that_of_the_serialised_keys(bench: StoreBench) -> None:
    bench.store.put_all([("é", 1), ("z", 2), ("", 3), ("€", 4)])
    assert [key for key, _ in bench.store.all()] == ["", "z", "é", "€"]


def test_a_prefix_scan_takes_bytes_or_a_key(bench: StoreBench) -> None:
    bench.store.put_all([("a", 1), ("ab", 2), ("b", 3)])
    assert [key for key, _ in bench.store.prefix_scan("a")] == ["a", "ab"]
    assert [key for key, _ in bench.store.prefix_scan(b"ab")] == ["ab"]
    assert [key for key, _ in bench.store.prefix_scan(b"")] == ["a", "ab", "b"]
    assert list(bench.store.prefix_scan(b"\xff")) == []


def test_rows_can_be_deleted_while_they_are_iterated(bench: StoreBench) -> None:
    bench.store.put_all([(f"{i:04d}", i) for i in range(500)])
    bench.commit()
    bench.store.put("0000x", 1)
    seen = []
    for key, _ in bench.store.all():
        bench.store.delete(key)
        seen.append(key)
    assert len(seen) == 501
    assert list(bench.store.all()) == []
    assert bench.store.approximate_num_entries() == 0


def test_an_unlogged_store_logs_nothing(directory: Path | None) -> None:
    bench = StoreBench(spec_of(is_logged=False), directory)
    bench.store.put("a", 1)
    assert bench.commit() == []
    bench.close()


def test_a_timestamped_row_is_logged_with_its_own_time(timestamped: StoreBench) -> None:
    timestamped.context.timestamp = 9
    timestamped.store.put("a", ValueAndTimestamp(5, 3))
    assert timestamped.store.get("a") == ValueAndTimestamp(5, 3)
    assert timestamped.commit() == [LoggedWrite(b"a", (5).to_bytes(8, "big"), 3)]


@pytest.mark.parametrize("deletion", [None, ValueAndTimestamp(None, 3)])
def test_a_timestamped_tombstone_is_logged_with_the_records_time(
    timestamped: StoreBench, deletion: Any
) -> None:
    timestamped.context.timestamp = 9
    timestamped.store.put("a", deletion)
    assert timestamped.store.get("a") is None
    assert timestamped.commit() == [LoggedWrite(b"a", None, 9)]


def test_a_time_of_zero_and_a_negative_one_are_kept(timestamped: StoreBench) -> None:
    for time in (0, -1, 2**62):
        timestamped.store.put("a", ValueAndTimestamp(1, time))
        assert timestamped.store.get("a").timestamp == time


def test_headers_are_kept_and_logged_only_by_stores_with_headers(directory: Path | None) -> None:
    bench = StoreBench(spec_of("timestamped_key_value", with_headers=True), directory)
    row = ValueAndTimestamp(5, 3, [("trace", b"x"), ("trace", b""), ("none", None)])
    bench.store.put("a", row)
    bench.store.put("b", ValueAndTimestamp(6, 4, []))
    assert bench.store.get("a") == row
    assert bench.store.get("b") == ValueAndTimestamp(6, 4, None)
    bench.context.headers = [("of", b"record")]
    bench.store.put("c", None)
    written = bench.commit()
    assert [write.headers for write in written] == [row.headers, [], [("of", b"record")]]
    assert written[0].value == (5).to_bytes(8, "big")
    assert list(bench.restored().store.all()) == list(bench.store.all())
    bench.close()


KEYS = st.sampled_from(["", "a", "aa", "ab", "b", "é"])
VALUES = st.none() | st.integers(0, 3)
PUTS = st.tuples(st.just("put"), KEYS, VALUES)
STEPS = st.lists(
    st.one_of(
        PUTS,
        st.tuples(st.sampled_from(["record", "undone record"]), st.lists(PUTS, max_size=3)),
        st.tuples(st.just("put_if_absent"), KEYS, st.integers(0, 3)),
        st.tuples(st.just("delete"), KEYS),
        st.tuples(st.just("get"), KEYS),
        st.tuples(st.sampled_from(["range", "reverse_range"]), KEYS | st.none(), KEYS | st.none()),
        st.tuples(st.just("prefix_scan"), KEYS),
        st.tuples(st.sampled_from(["commit", "commit_only", "discard", "reopen", "drop"])),
    ),
    max_size=30,
)


class DictModel:
    """What a key-value store does, on a dict."""

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {}
        self.committed: dict[str, Any] = {}

    def put(self, key: str, value: Any) -> None:
        if value is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = value

    def put_if_absent(self, key: str, value: Any) -> Any:
        found = self.rows.get(key)
        self.rows.setdefault(key, value)
        return found

    def delete(self, key: str) -> Any:
        return self.rows.pop(key, None)

    def get(self, key: str) -> Any:
        return self.rows.get(key)

    def range(self, lower: str | None, upper: str | None) -> list[tuple[str, Any]]:
        return [
            (key, self.rows[key])
            for key in sorted(self.rows, key=str.encode)
            if (lower is None or key.encode() >= lower.encode())
            and (upper is None or key.encode() <= upper.encode())
        ]

    def reverse_range(self, lower: str | None, upper: str | None) -> list[tuple[str, Any]]:
        return self.range(lower, upper)[::-1]

    def prefix_scan(self, prefix: str) -> list[tuple[str, Any]]:
        return [row for row in self.range(None, None) if row[0].startswith(prefix)]


def run_step(bench: StoreBench, model: DictModel, step: str, *arguments: Any) -> None:
    if bench.spec.kind == "timestamped_key_value" and step.startswith("put"):
        key, value = arguments
        kept: Any = None
        if value is not None:
            kept = value if bench.spec.value is serdes.int64 else Total(value, value / 2)
        arguments = (key, None if value is None else ValueAndTimestamp(kept, 10 + value))
    result = getattr(bench.store, step)(*arguments)
    expected = getattr(model, step)(*arguments)
    assert (list(result) if isinstance(expected, list) else result) == expected


def run_steps(bench: StoreBench, steps: list[tuple[Any, ...]]) -> None:
    model = DictModel()
    for time, (step, *arguments) in enumerate(steps):
        bench.context.timestamp = time
        if step.startswith("commit"):
            bench.commit(applies=step == "commit")
            model.committed = dict(model.rows)
        elif step == "drop":
            bench.state.drop_caches()
        elif step in ("discard", "reopen"):
            getattr(bench, step)()
            model.rows = dict(model.committed)
        elif step.endswith("record"):
            before = dict(model.rows)
            bench.begin_record()
            for put in arguments[0]:
                run_step(bench, model, *put)
            bench.end_record(rollback=step == "undone record")
            if step == "undone record":
                model.rows = before
        else:
            run_step(bench, model, step, *arguments)
    bench.commit(applies=False)
    contents = list(bench.store.all())
    assert contents == model.range(None, None)
    assert list(bench.store.reverse_all()) == contents[::-1]
    assert bench.store.approximate_num_entries() == len(contents)
    assert list(bench.restored().store.all()) == contents
    assert list(bench.restored(batch=3).store.all()) == contents
    bench.close()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("key_value", serdes.int64),
        ("timestamped_key_value", serdes.int64),
        ("timestamped_key_value", TOTAL),
    ],
)
@pytest.mark.parametrize("with_headers", [False, True])
@pytest.mark.parametrize("medium", MEDIA)
@settings(max_examples=at_most(30))
@given(steps=STEPS)
def test_any_steps_leave_what_a_dict_would_hold_and_the_log_restores_it(
    kind: str,
    value: serdes.Serde[Any],
    with_headers: bool,
    medium: str,
    steps: list[tuple[Any, ...]],
) -> None:
    spec = spec_of(kind, value, with_headers=with_headers)
    if medium == "memory":
        steps = [step for step in steps if step[0] != "reopen"]
        run_steps(StoreBench(spec), steps)
        return
    with tempfile.TemporaryDirectory() as directory:
        bench = StoreBench(spec, Path(directory) / "db")
        run_steps(bench, steps)


def test_a_value_that_does_not_fit_its_serde_fails_at_the_put_and_not_at_the_commit(
    timestamped: StoreBench,
) -> None:
    timestamped.store.put("a", ValueAndTimestamp(1, 1))
    for wrong in (2**63, 1.5, "text"):
        with pytest.raises((struct.error, SerdeError)):
            timestamped.store.put("a", ValueAndTimestamp(wrong, 1))
    timestamped.commit()


def test_a_hot_row_is_logged_once_per_commit(timestamped: StoreBench) -> None:
    for value in range(1000):
        timestamped.store.put("a", ValueAndTimestamp(value, value))
    assert timestamped.commit() == [LoggedWrite(b"a", (999).to_bytes(8, "big"), 999)]
    assert timestamped.commit() == []


def test_a_mutable_value_is_a_fresh_copy_at_each_read(directory: Path | None) -> None:
    spec = StoreSpec("carts", "timestamped_key_value", serdes.string, serdes.json)
    bench = StoreBench(spec, directory)
    cart = {"items": [1]}
    bench.store.put("a", ValueAndTimestamp(cart, 1))
    cart["items"].append(2)
    bench.store.get("a").value["items"].append(3)
    assert bench.store.get("a").value == {"items": [1]}
    bench.close()


def test_an_immutable_value_is_decoded_once(directory: Path | None) -> None:
    spec = StoreSpec("names", "timestamped_key_value", serdes.string, serdes.string)
    bench = StoreBench(spec, directory)
    bench.store.put("a", ValueAndTimestamp("é", 1))
    bench.commit()
    assert bench.store.get("a").value is bench.store.get("a").value
    bench.state.drop_caches()
    assert bench.store.get("a") == ValueAndTimestamp("é", 1)
    bench.close()
