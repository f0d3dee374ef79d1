"""What JSON would read as another value than was written, without a word, is refused."""

from __future__ import annotations

import dataclasses
import enum
import typing
from collections.abc import Sequence
from datetime import UTC, date, datetime

import msgspec
import pytest

from logstate import ProductionError, StreamsBuilder
from logstate.contracts.errors import SerdeError
from logstate.serdes import json_of
from logstate.testing import TopologyTestDriver


class Click(msgspec.Struct, frozen=True):
    page: str
    at: int = 0


class Colour(enum.Enum):
    RED = "red"


class Order(typing.TypedDict):
    item: str
    count: int


class Blob(msgspec.Struct, frozen=True):
    raw: bytes
    tags: list[str] = []


class Apart(msgspec.Struct, eq=False):
    """Compared by nothing."""

    raw: bytes | None


@dataclasses.dataclass
class Half:
    """Compared by the half of it."""

    name: str
    raw: bytes = dataclasses.field(compare=False)


class Anything(msgspec.Struct):
    a: typing.Any = None


class Spaces(msgspec.Struct):
    """Made anew it is another one each time."""

    text: str

    def __post_init__(self) -> None:
        self.text += " "


class Loose(typing.NamedTuple):
    raw: bytes


@pytest.mark.parametrize(
    ("type_", "value", "complaint"),
    [
        (Blob, Blob("abcd"), r"at `\$\.raw` there is str, and bytes would be read"),  # type: ignore[arg-type]
        (Blob, Blob(b"", {"a"}), r"at `\$\.tags` there is set, and list"),  # type: ignore[arg-type]
        (Click, Click(b"ab"), r"at `\$\.page` there is bytes, and str"),  # type: ignore[arg-type]
        (Click, Click(Colour.RED), r"at `\$\.page` there is Colour, and str"),  # type: ignore[arg-type]
        (Click, Click(date(2026, 1, 1)), "there is date, and str"),  # type: ignore[arg-type]
        (Apart, Apart("abcd"), "there is str, and bytes"),  # type: ignore[arg-type]
        (Half, Half("a", "abcd"), r"at `\$\.raw` there is str, and bytes"),  # type: ignore[arg-type]
        (Loose, Loose("abcd"), r"at `\$\[0\]` there is str, and bytes"),  # type: ignore[arg-type]
        (Blob | None, Blob("abcd"), r"at `\$\.raw`"),  # type: ignore[arg-type]
        (bytes | int, "abcd", "there is str, and bytes"),
        (list[Blob], [Blob(b"a"), Blob("abcd")], r"at `\$\[1\]\.raw`"),  # type: ignore[arg-type]
        (dict[str, bytes], {"a": "abcd"}, r"at `\$\.a`"),
        (dict[bytes, int], {"abcd": 1}, "a key that is str"),
        (dict[str, list[str]], {"a": [b"a"]}, r"at `\$\.a\[0\]` there is bytes, and str"),
        (Anything, Anything(b"ab"), r"at `\$\.a` there is bytes, and str"),
        (Anything, Anything({1: 2}), r"at `\$\.a` there is a key that is int|dicts with str keys"),
        (tuple[int, ...], [1], "there is list, and tuple"),
        (list[int], {1, 2}, "there is set, and list"),
        (set[int], [1], "there is list, and set"),
        (float, 2**53 + 1, "there is int, and float"),
        (Colour, "red", "there is str, and Colour"),
        (datetime, "2026-01-01", "RFC3339"),
        (datetime, "2026-01-01T00:00:00", "there is str, and datetime"),
        (Order, {"item": "a", "count": 1, "more": 2}, "a key that is str, and a dict without it"),
        (Spaces, Spaces("a"), r"at `\$\.text` there is str, and another str"),
        (typing.Any, {"at": datetime(2026, 1, 1, tzinfo=UTC)}, "there is datetime, and str"),
        (typing.Any, {"raw": b"ab"}, "there is bytes, and str"),
        (typing.Any, {1: "a"}, "a key that is int|dicts with str keys"),
        (typing.Any, [Click("a")], "there is Click, and dict"),
        (typing.Any, {3}, "there is set, and list"),
        (typing.Any, Colour.RED, "there is Colour, and str"),
    ],
)
@pytest.mark.parametrize("is_key", [False, True])
def test_what_would_be_read_as_another_value_is_not_written(
    type_: typing.Any, value: object, complaint: str, is_key: bool
) -> None:
    with pytest.raises((SerdeError, TypeError), match=complaint):
        json_of(type_).serializer("t", is_key)(value)


@pytest.mark.parametrize("type_", [typing.Any, list[int], Sequence[int]])
def test_a_tuple_is_written_as_the_list_that_is_read(type_: typing.Any) -> None:
    serde = json_of(type_)

    assert serde.deserializer("t", False)(serde.serializer("t", False)((1, 2))) == [1, 2]


T = typing.TypeVar("T")


class Box(msgspec.Struct, typing.Generic[T]):
    content: T


class LooseBox(msgspec.Struct, typing.Generic[T], eq=False):
    content: T


@pytest.mark.parametrize("cls", [Box, LooseBox])
def test_a_generic_struct_is_compared_as_any_other(cls: typing.Any) -> None:
    write = json_of(cls[bytes]).serializer("t", False)
    assert write(cls(b"ab")) == b'{"content":"YWI="}'
    with pytest.raises(SerdeError, match=r"at `\$\.content` there is str, and bytes"):
        write(cls("abcd"))


def blob_of_text(text: str) -> Blob:
    return Blob(text)  # type: ignore[arg-type]


def test_a_row_that_would_be_read_as_another_one_names_the_function() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).map_values(blob_of_text, value=Blob).to("out")
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(
            ProductionError, match=r"\$\.raw` there is str.*test_json_of_another_value.py:\d+"
        ),
    ):
        driver.pipe("in", "k", "abcd")
