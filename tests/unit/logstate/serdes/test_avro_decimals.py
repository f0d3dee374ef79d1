"""A Decimal that does not fit its Avro type is named, with what the type has."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from logstate.contracts.errors import SerdeError
from logstate.serdes import avro

PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
INNER = {"type": "record", "name": "Inner", "fields": [{"name": "fee", "type": PRICE}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "price", "type": ["null", PRICE], "default": None},
        {"name": "inner", "type": [INNER, "null"], "default": {"fee": "\u0000"}},
        {"name": "fees", "type": {"type": "array", "items": PRICE}, "default": []},
        {"name": "by", "type": {"type": "map", "values": PRICE}, "default": {}},
    ],
}
LONG = Decimal("1.505")
BEHIND = "is a Decimal with 3 digits behind the point, and its type has 2"
BEFORE = "is a Decimal that needs more than the 2 digits before the point of its type"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"price": LONG}, rf"Order\.price {BEHIND}"),
        ({"inner": {"fee": LONG}}, rf"Order\.inner\.fee {BEHIND}"),
        ({"fees": [Decimal(1), LONG]}, rf"Order\.fees\[\] {BEHIND}"),
        ({"by": {"a": LONG}}, rf"Order\.by\[\] {BEHIND}"),
        ({"price": Decimal("123.4")}, rf"Order\.price {BEFORE}"),
        ({"price": Decimal("1E+2")}, rf"Order\.price {BEFORE}"),
        ({"price": b"\x04"}, r"Order\.price is bytes, expected a Decimal, which would be read"),
        ({"price": Decimal("NaN")}, r"Order\.price is a Decimal that is not a number"),
    ],
)
def test_a_decimal_with_too_many_digits_is_told_by_its_field(value: Any, told: str) -> None:
    write = avro(ORDER).serializer("t", False)
    whole = {"price": None, "inner": None, "fees": [], "by": {}, **value}
    with pytest.raises(SerdeError, match=told):
        write(whole)


def test_a_decimal_alone_is_told_as_the_value() -> None:
    with pytest.raises(SerdeError, match=f"schema bytes: the value {BEHIND}"):
        avro(PRICE).serializer("t", False)(LONG)


@pytest.mark.parametrize("text", ["12.34", "-99.99", "0", "0E+9", "1E+1", "0.10"])
@pytest.mark.parametrize("more", [{}, {"type": "fixed", "name": "Price", "size": 4}])
def test_a_decimal_that_fits_is_written(text: str, more: dict[str, Any]) -> None:
    price = avro({**PRICE, **more})
    data = price.serializer("t", False)(Decimal(text))
    assert price.deserializer("t", False)(data) == Decimal(text)


def test_minus_zero_is_never_read_as_minus_two() -> None:
    rounded = Decimal("-0.001").quantize(Decimal("0.01"))
    plain, fixed = avro(PRICE), avro({**PRICE, "type": "fixed", "name": "Price", "size": 4})
    assert plain.deserializer("t", False)(plain.serializer("t", False)(rounded)) == 0
    write, read = fixed.serializer("t", False), fixed.deserializer("t", False)
    with pytest.raises(SerdeError, match=r"the value is a Decimal of minus zero.*value \+ 0"):
        write(rounded)
    assert read(write(rounded + 0)) == 0
