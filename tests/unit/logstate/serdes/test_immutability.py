import dataclasses
import datetime
import decimal
import enum
import typing
import uuid

import msgspec
import pytest

from logstate.serdes import json, json_of, string, windowed
from logstate.serdes.immutability import is_immutable


class Color(enum.Enum):
    RED = "red"


class Frozen(msgspec.Struct, frozen=True):
    name: str
    color: Color
    at: datetime.datetime | None = None


class FrozenAround(msgspec.Struct, frozen=True):
    inner: Frozen
    more: tuple[Frozen, ...] = ()


class FrozenWithList(msgspec.Struct, frozen=True):
    names: list[str]


class Loose(msgspec.Struct):
    name: str


class Node(msgspec.Struct, frozen=True):
    value: int
    next: "Node | None" = None


@dataclasses.dataclass(frozen=True)
class FrozenData:
    n: int
    amount: decimal.Decimal


@dataclasses.dataclass(frozen=True)
class FrozenDataWithDict:
    n: dict[str, int]


@dataclasses.dataclass
class LooseData:
    n: int


class Pair(typing.NamedTuple):
    left: int
    right: str


class PairOfLists(typing.NamedTuple):
    left: list[int]


@pytest.mark.parametrize(
    "type_",
    [
        str,
        int,
        float,
        bytes,
        bool,
        None,
        datetime.date,
        uuid.UUID,
        Color,
        Frozen,
        FrozenAround,
        Node,
        FrozenData,
        Pair,
        tuple[int, ...],
        tuple[str, Frozen],
        frozenset[str],
        int | None,
        typing.Optional[Frozen],  # noqa: UP045  the old spelling is another object
        typing.Literal["a", "b"],
        typing.Annotated[int, msgspec.Meta(gt=0)],
        typing.NewType("UserId", int),
    ],
)
def test_types_that_can_be_shared(type_: object) -> None:
    assert is_immutable(type_)


@pytest.mark.parametrize(
    "type_",
    [
        dict,
        list,
        set,
        tuple,
        object,
        typing.Any,
        Loose,
        LooseData,
        FrozenWithList,
        FrozenDataWithDict,
        PairOfLists,
        list[int],
        dict[str, int],
        tuple[list[int], int],
        tuple[typing.Any, ...],
        int | list[int],
    ],
)
def test_types_that_user_code_could_change(type_: object) -> None:
    assert not is_immutable(type_)


def test_a_serde_knows_whether_its_objects_can_be_shared() -> None:
    assert string.immutable
    assert json_of(Frozen).immutable
    assert windowed(Frozen, 10).immutable
    assert not json.immutable
    assert not json_of(Loose).immutable
    assert not windowed(Loose, 10).immutable
