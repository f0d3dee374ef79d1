"""``logstate get --by``: the rows that an index has for a value, without a broker."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from logstate import Materialized, StreamsBuilder, Topology, index
from logstate.cli.main import app as command
from logstate.cli.stores.get import _indexed, indexed_rows
from logstate.contracts.errors import ConfigError, StoreError
from logstate.topics.displayed_records import log_of_entry
from logstate.topology.plan.plan import Topology as Plan


class Order(msgspec.Struct, frozen=True):
    city: str | None
    cents: int


def failing(order: Order) -> str:
    return {"Oslo": "NO"}[order.city or ""]


def topology() -> Topology:
    indexes = {
        "city": lambda order: order.city,
        "cents": lambda order: order.cents,
        "both": index(lambda order: (order.city or "", order.cents), tuple[str, int]),
        "country": failing,
    }
    builder = StreamsBuilder()
    builder.table("orders", key=str, value=Order, store=Materialized("orders", indexes=indexes))
    return builder.build()


PLAN: Plan = topology()


class Record:
    """A record of the changelog of orders."""

    def __init__(self, key: str, order: Order | None) -> None:
        self._key = key.encode()
        self._value = None if order is None else msgspec.json.encode(order)

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes | None:
        return self._value


ROWS = [
    Record("a", Order("Oslo", 5)),
    Record("b", Order("Os", 5)),
    Record("c", Order(None, -7)),
    Record("d", Order("Oslo", 70)),
    Record("e", None),
]


def keys(name: str, text: str) -> list[str]:
    entry = {"kind": "timestamped_key_value", "key": {"format": "string"}, "value": None}
    log = log_of_entry("orders", entry, "shop-orders-changelog", 1)
    rows: list[Any] = ROWS
    found = indexed_rows(rows, log, _indexed(PLAN.stores["orders"], name, text))
    return [(record.key() or b"").decode() for record in found]


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("city", "Oslo", ["a", "d"]),
        ("city", "Os", ["b"]),
        ("city", "", []),
        ("cents", "5", ["a", "b"]),
        ("cents", "-7", ["c"]),
        ("both", '["Oslo", 70]', ["d"]),
    ],
)
def test_the_rows_are_those_that_the_index_has_for_the_value(
    name: str, text: str, found: list[str]
) -> None:
    assert keys(name, text) == found


def test_a_function_that_raises_names_the_row_and_its_place() -> None:
    said = r"index 'country' of store 'orders' failed for the row.*is stored already"
    with pytest.raises(StoreError, match=said):
        keys("country", "NO")


def test_a_text_that_is_no_value_of_the_index_is_refused() -> None:
    with pytest.raises(ConfigError, match="--by cents many: 'many' is not a value of the index"):
        keys("cents", "many")


OF = f"{__name__}:topology"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["orders"], "give a KEY, or --by INDEX VALUE; found neither"),
        (["orders", "a", "--by", "city", "Oslo", "--topology", OF], "found both"),
        (["orders", "--by", "city", "Oslo"], "--by city needs --topology MODULE:ATTRIBUTE"),
        (["orders", "a", "--topology", OF], "--topology is for --by INDEX VALUE"),
        (["orders", "--by", "town", "Oslo", "--topology", OF], "has no index 'town'"),
        (
            ["order", "--by", "city", "Oslo", "--topology", OF],
            "has no store 'order'; it has",
        ),
    ],
)
def test_wrong_use_is_refused_before_a_broker_is_asked(words: list[str], said: str) -> None:
    of = ["--application-id", "shop", "--bootstrap", "nowhere:1"]
    answer = CliRunner().invoke(command, ["get", *words, *of])
    assert answer.exit_code != 0
    assert said in str(answer.exception)
