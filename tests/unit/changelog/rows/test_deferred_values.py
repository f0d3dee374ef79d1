"""Rows of frozen structs of scalars: kept as objects, encoded once per commit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.changelog.rows.deferred_values import deferred_values
from logstate.changelog.rows.writes import LoggedWrite
from logstate.contracts.errors import SerdeError
from logstate.contracts.generated_code import make_function
from logstate.contracts.stores import ValueAndTimestamp
from logstate.serdes import string
from logstate.serdes.json_serde import json, json_of
from logstate.serdes.plain_structs import plain_condition
from tests.unit.changelog.store_bench import MEDIA, StoreBench
from tests.unit.changelog.stores.test_key_value_stores import TOTAL, Total, spec_of


@pytest.fixture(params=MEDIA)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreBench]:
    directory = None if request.param == "memory" else tmp_path / "db"
    made = StoreBench(spec_of("timestamped_key_value", TOTAL), directory)
    yield made
    made.close()


def row(count: Any, total: Any = 0.5, timestamp: int = 7) -> ValueAndTimestamp[Any]:
    return ValueAndTimestamp(Total(count, total), timestamp)


def test_a_hot_row_is_logged_once_per_commit_with_its_last_value(bench: StoreBench) -> None:
    for count in range(100):
        bench.store.put("a", row(count, timestamp=count))

    assert bench.commit() == [LoggedWrite(b"a", b'{"count":99,"sum":0.5}', 99)]
    assert bench.commit() == []


def test_an_int_in_the_place_of_a_float_is_read_as_its_bytes_say(bench: StoreBench) -> None:
    bench.store.put("a", row(1, 0.5))
    bench.store.put("a", row(1, 2))

    assert type(bench.store.get("a").value.sum) is float
    assert bench.commit() == [LoggedWrite(b"a", b'{"count":1,"sum":2}', 7)]


def test_a_value_that_cannot_be_encoded_fails_at_the_put_and_changes_nothing(
    bench: StoreBench,
) -> None:
    bench.store.put("a", row(1))
    with pytest.raises(SerdeError):
        bench.store.put("a", row(1, float("nan")))


def test_a_deletion_overtakes_what_is_pending(bench: StoreBench) -> None:
    bench.context.timestamp = 30
    bench.store.put("a", row(1))
    bench.store.put("a", None)

    assert bench.store.get("a") is None
    assert bench.commit() == [LoggedWrite(b"a", None, 30)]


def test_users_read_rows_with_names_and_operators_may_read_and_write_plain_ones(
    bench: StoreBench,
) -> None:
    bench.store.put("a", (Total(3, 1.5), 9, None))

    assert bench.store.get("a") == ValueAndTimestamp(Total(3, 1.5), 9)
    assert bench.store.get("a").timestamp == 9
    value, timestamp, _ = bench.store.get_row("a")
    assert (value, timestamp) == (Total(3, 1.5), 9)
    bench.commit()
    bench.state.drop_caches()
    assert bench.store.get("a") == ValueAndTimestamp(Total(3, 1.5), 9)


def plain_check(type_: type) -> Any:
    condition = plain_condition(type_)
    assert condition is not None
    source = f"def is_plain(value):\n    return ({condition})\n"
    return make_function("is_plain", source, type_.__name__)


class Mixed(msgspec.Struct, frozen=True):
    count: int
    ratio: float
    total: float
    name: str
    is_new: bool
    note: str | None = None
    limit: int | None = None


_ANY = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3))


@given(st.tuples(*[_ANY] * 7))
def test_what_is_plain_is_what_its_json_decodes_to(fields: tuple[Any, ...]) -> None:
    is_plain = plain_check(Mixed)
    made = Mixed(*fields)
    if is_plain(made):
        data = msgspec.json.encode(made)
        found = msgspec.json.decode(data, type=Mixed)
        # repr, because 1 == 1.0 == True
        assert repr(found) == repr(made)


@given(
    st.builds(
        Mixed,
        st.integers(-(2**63), 2**63 - 1),
        st.floats(-1e300, 1e300),
        st.floats(-1e300, 1e300),
        st.text(st.characters(max_codepoint=127), max_size=5),
        st.booleans(),
    )
)
def test_usual_objects_are_plain(made: Mixed) -> None:
    is_plain = plain_check(Mixed)
    assert is_plain(made)


class Checked(msgspec.Struct, frozen=True):
    count: int

    def __post_init__(self) -> None:
        assert self.count >= 0


class Bounded(msgspec.Struct, frozen=True):
    tags: tuple[str, ...]


class Mutable(msgspec.Struct):
    count: int


@pytest.mark.parametrize("type_", [Checked, Bounded, Mutable, int, dict[str, int]])
def test_what_cannot_be_told_from_its_fields_is_encoded_at_the_put(type_: Any) -> None:
    assert plain_condition(type_) is None
    assert deferred_values(string, json_of(type_)) is None
    assert deferred_values(json, TOTAL) is None
