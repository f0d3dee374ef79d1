"""Whatever a function returns: Avro writes what will be read again as it is, or refuses it."""

from __future__ import annotations

import datetime
import itertools
import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from logstate import StreamsBuilder
from logstate.contracts.errors import SerdeError
from logstate.serdes import avro
from logstate.testing import TopologyTestDriver
from tests.unit.logstate.serdes.anything import ANY_SCALAR, ANYTHING, SCALARS, Case, is_same

_names = itertools.count()


def logical(type_: str, name: str) -> dict[str, str]:
    return {"type": type_, "logicalType": name}


#: schema, and what is right for it; without those that round by their own unit
LEAVES: list[tuple[Any, Any]] = [
    ("null", type(None)),
    ("boolean", bool),
    ("int", int),
    ("long", int),
    ("double", float),
    ("bytes", bytes),
    ("string", str),
    (logical("long", "timestamp-micros"), datetime.datetime),
    (logical("long", "local-timestamp-micros"), datetime.datetime),
    (logical("int", "date"), datetime.date),
    (logical("long", "time-micros"), datetime.time),
    (logical("string", "uuid"), uuid.UUID),
]


def _leaf(both: tuple[Any, Any]) -> Case:
    schema, type_ = both
    return Case(schema, st.one_of(SCALARS[type_], SCALARS[type_], ANYTHING))


def _array(one: Case) -> Case:
    values = st.lists(one.values, max_size=2)
    return Case({"type": "array", "items": one.type_}, values | values.map(tuple) | ANYTHING)


def _map(one: Case) -> Case:
    values = st.dictionaries(
        st.text(max_size=2) | ANY_SCALAR.filter(_has_hash), one.values, max_size=2
    )
    return Case({"type": "map", "values": one.type_}, values | ANYTHING)


def _has_hash(value: object) -> bool:
    return not isinstance(value, bytearray)


def _record(both: tuple[Case, Case]) -> Case:
    fields = {"a": both[0], "b": both[1]}
    schema = {
        "type": "record",
        "name": f"R{next(_names)}",
        "fields": [{"name": name, "type": one.type_} for name, one in fields.items()],
    }
    values = st.fixed_dictionaries({name: one.values for name, one in fields.items()})
    return Case(schema, values | values | ANYTHING)


def _union(some: list[Case]) -> Case:
    return Case([one.type_ for one in some], st.one_of(*(one.values for one in some)))


def _containers(inner: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    return st.one_of(
        inner.map(_array),
        inner.map(_map),
        st.tuples(inner, inner).map(_record),
        st.lists(inner, min_size=1, max_size=3).map(_union),
    )


CASES: st.SearchStrategy[Case] = st.recursive(
    st.sampled_from(LEAVES).map(_leaf), _containers, max_leaves=4
)


@given(st.data(), CASES, st.booleans())
def test_avro_is_read_as_it_was_written(data: st.DataObject, case: Case, is_key: bool) -> None:
    try:
        serde = avro(case.type_)
        write, read = serde.serializer("t", is_key), serde.deserializer("t", is_key)
    except SerdeError:
        assume(False)  # a union in a union, or of two alike
    value = data.draw(case.values)
    try:
        written = write(value)
    except SerdeError:
        return
    found = read(written)
    assert is_same(value, found), f"{value!r} was read as {found!r} with {case.type_}"


KEYS: Mapping[str, Any] = {
    "a map": {"type": "map", "values": "long"},
    "in a record": {
        "type": "record",
        "name": "Key",
        "fields": [{"name": "m", "type": ["null", {"type": "map", "values": "long"}]}],
    },
    "in an array": {"type": "array", "items": {"type": "map", "values": "long"}},
    "in a map": {"type": "map", "values": {"type": "map", "values": "long"}},
}


@pytest.mark.parametrize("schema", KEYS.values(), ids=KEYS)
def test_equal_keys_with_maps_are_equal_bytes(schema: Any) -> None:
    write = avro(schema).serializer("t", True)
    made: Mapping[str, Any] = {
        "a map": lambda one: one,
        "in a record": lambda one: {"m": one},
        "in an array": lambda one: [one],
        "in a map": lambda one: (
            {"z": one, "y": {}} if "b" in list(one)[:1] else {"y": {}, "z": one}
        ),
    }
    name = next(name for name, one in KEYS.items() if one is schema)
    one, other = ({"b": 1, "a": 2}, {"a": 2, "b": 1})
    assert write(made[name](one)) == write(made[name](other))
    values = avro(schema).serializer("t", False)
    assert values(made[name](one)) != values(made[name](other)), "values keep their order"


def test_rows_of_equal_keys_with_maps_are_one() -> None:
    builder = StreamsBuilder()
    keys = avro(KEYS["a map"])
    tags = builder.stream("in", value=str).group_by(
        lambda text: dict.fromkeys(text, 1), key=keys, name="by-tags"
    )
    tags.count(store="counts")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "k", "ab")
        driver.pipe("in", "k", "ba")
        rows = list(driver.store("counts").all())
        assert [(key, row.value) for key, row in rows] == [({"a": 1, "b": 1}, 2)]
        assert driver.store("counts").get({"b": 1, "a": 1}).value == 2
