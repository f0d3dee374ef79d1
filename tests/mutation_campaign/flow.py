"""The application: one source per format, each read, written as text, and counted."""

from __future__ import annotations

from typing import Any

import msgspec

from logstate.serdes import avro as avro_of
from logstate.serdes import json_of
from logstate.topology import StreamsBuilder
from logstate.topology.plan.plan import Topology

KINDS = ("json", "avro", "raw")
DEAD = "dead"
ORDER_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "user", "type": "string"},
        {"name": "amount", "type": "int"},
        {"name": "at", "type": ["null", "long"]},
        {"name": "items", "type": {"type": "array", "items": "long"}},
        {"name": "is_new", "type": "boolean"},
        {"name": "size", "type": {"type": "enum", "name": "Size", "symbols": ["S", "M", "L"]}},
        {"name": "price", "type": "double"},
    ],
}


class Click(msgspec.Struct, frozen=True):
    """What the topic ``json`` holds."""

    user: str
    amount: int
    ratio: float | None = None
    tags: list[str] = []


def click_text(user: str, amount: int, ratio: float | None, tags: list[str]) -> str:
    """A click in a form that shows every difference."""
    return repr((user, amount, ratio, tags))


def avro_text(order: dict[str, Any]) -> str:
    """An order in a form that shows every difference."""
    return repr(sorted(order.items()))


def topology() -> Topology:
    """From ``json``, ``avro``, ``raw`` to ``good-json`` and so on."""
    builder = StreamsBuilder()
    clicks = builder.stream("json", key=str, value=json_of(Click))
    clicks.map_values(_click, value=str).to("good-json")
    clicks.group_by_key().count(store="clicks")
    orders = builder.stream("avro", key=str, value=avro_of(ORDER_SCHEMA))
    orders.map_values(lambda order: "nothing" if order is None else avro_text(order)).to(
        "good-avro", value=str
    )
    numbers = builder.stream("raw", key=str, value=int)
    numbers.map_values(lambda number: "nothing" if number is None else str(number)).to(
        "good-raw", value=str
    )
    return builder.build()


def _click(click: Click | None) -> str:
    if click is None:
        return "nothing"
    return click_text(click.user, click.amount, click.ratio, click.tags)
