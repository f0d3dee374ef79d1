"""What a serde says of a value that it cannot write: where it is, what it is, and what to do."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pydantic
import pytest

from logstate import StreamsBuilder, TopologyTestDriver
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import ProductionError, SerdeError
from logstate.serdes import avro, boolean, float64, int64, json, json_of, serde_of

HALF = "a\ud800"


class Click(msgspec.Struct):
    n: int
    is_new: bool = False
    page: str = ""
    tags: list[Any] = []


class Flat(msgspec.Struct):
    page: str


class Model(pydantic.BaseModel):
    n: int = 0
    page: str = ""
    more: Any = None


def record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    told = [{"name": one, "type": kind} for one, kind in fields]
    return {"type": "record", "name": name, "fields": told}


INNER = record(("p", ["null", "long"]), name="I")
AVRO: list[tuple[Any, Any, str]] = [
    (record(("p", ["null", "long"])), {}, r"R\.p is missing, and has no default: .*None is one"),
    (record(("p", "long")), {}, r"R\.p is missing or None, expected long: give a value, or"),
    (record(("i", INNER)), {"i": {}}, r"R\.i\.p is missing"),
    (
        record(("i", {"type": "array", "items": INNER})),
        {"i": [{"p": 1}, {}]},
        r"R\.i\[1\]\.p is mi",
    ),
    (record(("i", ["null", INNER])), {"i": {}}, r"R\.i\.p is missing"),
    (
        record(("i", {"type": "map", "values": INNER})),
        {"i": {"k": {}}},
        r"R\.i\['k'\]\.p is missing",
    ),
    (
        record(("i", INNER)),
        {"i": {"p": 1, "q": 2}},
        r"R\.i has a field too many: the schema has no field q",
    ),
    (record(("p", "long")), {"p": 1, HALF: 2}, r"has no field a\\ud800"),
    (record(("s", "string")), {"s": HALF}, r"R\.s has the lone surrogate U\+D800 at position 1"),
    (record(("s", ["null", "string"])), {"s": HALF}, r"R\.s has the lone surrogate U\+D800"),
    ("string", HALF, r"has the lone surrogate U\+D800"),
    ({"type": "map", "values": "long"}, {HALF: 1}, r"a key with the lone surrogate U\+D800"),
    (
        {"type": "map", "values": "long"},
        {1: 1},
        "has a key that is int; the keys of a map are text",
    ),
    (record(("d", "double")), {"d": 10**400}, r"R\.d is a whole number larger than any float"),
    (record(("b", "boolean")), {"b": np.bool_(True)}, r"R\.b is numpy\.bool, expected boolean"),
    (
        record(("l", {"type": "array", "items": "long"})),
        {"l": np.array([1])},
        r"R\.l is numpy\.ndarray, expected an array",
    ),
]


@pytest.mark.parametrize(("schema", "value", "told"), AVRO)
def test_avro_names_the_field_that_does_not_fit(schema: Any, value: Any, told: str) -> None:
    with pytest.raises(SerdeError, match=told) as raised:
        avro(schema).serializer("t", False)(value)
    str(raised.value).encode()
    assert "no field is to blame" not in str(raised.value)


JSON: list[tuple[Any, Any, str]] = [
    (json, np.int64(1), r"at `\$`, numpy\.int64 is not a type of JSON.*value\.item\(\)"),
    (json, {"a": [np.float32(1)]}, r"at `\$\.a\[0\]`, numpy\.float32 is not a type of JSON"),
    (json, {"a": np.array([1])}, r"at `\$\.a`, numpy\.ndarray .*value\.tolist\(\)"),
    (json, np.str_("a"), r"numpy\.str_ is not a type of JSON"),
    (json, {np.int64(1): 1}, r"at `\$\[\] \(key\)`, numpy\.int64"),
    (json, {"a": HALF}, r"at `\$\.a`, a text has the lone surrogate U\+D800 at position 1"),
    (json, {HALF: 1}, r"at `\$\[\] \(key\)`, a text has the lone surrogate"),
    (json, {"a": object()}, r"at `\$\.a`, object is not a type of JSON"),
    (json_of(Click), Click(np.int64(1)), r"at `\$\.n`, numpy\.int64"),  # type: ignore[arg-type]
    (json_of(Click), Click(1, np.bool_(True)), r"at `\$\.is_new`, numpy\.bool "),  # type: ignore[arg-type]
    (json_of(Click), Click(1, tags=[HALF]), r"at `\$\.tags\[0\]`, a text has the lone surrogate"),
    (json_of(Flat), Flat(HALF), r"at `\$\.page`, a text has the lone surrogate"),
    (serde_of(Model, what="x"), Model.model_construct(page=HALF), r"at `\$\.page`, a text has"),
    (serde_of(Model, what="x"), Model(more=np.array([1])), r"at `\$\.more`, numpy\.ndarray"),
]


@pytest.mark.parametrize(("serde", "value", "told"), JSON)
@pytest.mark.parametrize("is_key", [False, True])
def test_json_names_the_part_that_it_cannot_hold(
    serde: Any, value: Any, told: str, is_key: bool
) -> None:
    with pytest.raises(SerdeError, match=told) as raised:
        serde.serializer("t", is_key)(value)
    str(raised.value).encode()


@pytest.mark.parametrize(
    ("serde", "value", "told"),
    [
        (
            boolean,
            np.bool_(True),
            r"takes True or False, found numpy\.bool\. Return bool\(\.\.\.\)",
        ),
        (boolean, 1, "takes True or False, found int"),
        (int64, np.bool_(True), r"takes int, found numpy\.bool"),
        (float64, np.bool_(True), r"takes float, found numpy\.bool"),
    ],
)
def test_a_type_of_numpy_is_told_from_pythons(serde: Any, value: Any, told: str) -> None:
    with pytest.raises(SerdeError, match=told):
        serde.serializer("t", False)(value)


def test_text_that_utf8_cannot_encode_is_named_where_it_is_written() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).map_values(lambda _: HALF).to("out", value=str)
    with TopologyTestDriver(builder.build()) as driver:
        with pytest.raises(
            ProductionError, match=r"a text has the lone surrogate U\+D800"
        ) as raised:
            driver.pipe("in", "k", "v")
        assert ".. " not in str(raised.value)


def test_a_message_inside_a_message_has_no_period_at_its_end() -> None:
    assert text_of(ValueError("It is wrong.")) == "It is wrong"
    assert text_of(ValueError("wait ...")) == "wait ..."
    builder = StreamsBuilder()
    builder.stream("in", value=str).map_values(lambda _: 1).to("out", value=bool)
    with TopologyTestDriver(builder.build()) as driver:
        with pytest.raises(ProductionError) as raised:
            driver.pipe("in", "k", "v")
        assert ".. " not in str(raised.value)
        assert ". It was produced by the record at 'in'" in str(raised.value)
