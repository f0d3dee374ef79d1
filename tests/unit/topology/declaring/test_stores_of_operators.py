"""What `store=` of an operator takes, and how it goes with the operator's own `value=`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from logstate.contracts.errors import TopologyError
from logstate.serdes import int32
from logstate.serdes.built_in import serde_of
from logstate.topology import KTable, Materialized, StreamsBuilder, key_value_store
from tests.unit.topology.declaring.declared import grouped, table


class Total(msgspec.Struct, frozen=True):
    cents: int = 0


#: operators whose rows are their store's and nothing else
OF_ONE_STORE: dict[str, Callable[[Any, Any], KTable[Any, Any]]] = {
    "aggregate": lambda store, value: grouped().aggregate(
        int, lambda k, v, total: total, store=store, value=value
    ),
    "map_values": lambda store, value: table().map_values(lambda v: v, store=store, value=value),
    "join": lambda store, value: (one := table()).join(
        one, lambda a, b: a, store=store, value=value
    ),
    "join by a foreign key": lambda store, value: (one := table()).join(
        one, lambda a, b: a, foreign_key=str, name="by", store=store, value=value
    ),
}


@pytest.mark.parametrize("operator", OF_ONE_STORE)
def test_two_serdes_for_the_same_values_are_refused(operator: str) -> None:
    declare = OF_ONE_STORE[operator]
    told = "'s' has two serdes .* operator says <serde int64>, .* Materialized says <serde string>"
    with pytest.raises(TopologyError, match=told):
        declare(Materialized("s", value=str), int)


@pytest.mark.parametrize("operator", OF_ONE_STORE)
def test_the_same_serde_may_be_said_twice_or_in_one_place(operator: str) -> None:
    declare = OF_ONE_STORE[operator]
    for store, value in (
        (Materialized("s", value=Total), Total),
        (Materialized("s", value=Total), None),
        (Materialized("s"), Total),
    ):
        serde = declare(store, value).value
        assert serde is not None
        assert serde.describe() == serde_of(Total, what="totals").describe()


def test_a_count_may_be_kept_in_other_numbers_and_a_topic_be_read_as_other_bytes() -> None:
    assert grouped().count(store=Materialized("s", value=int32)).value is int32
    kept = Materialized("s", value="json")
    rows = StreamsBuilder().table("t", key=str, value=int, store=kept)
    assert rows.node.store.value.describe()["format"] == "json"


@pytest.mark.parametrize("operator", OF_ONE_STORE)
def test_the_declaration_of_a_processors_store_is_no_store_of_an_operator(operator: str) -> None:
    store = key_value_store("s", str, int)
    with pytest.raises(TopologyError, match=r"found the declaration of store 's', .* store=.s."):
        OF_ONE_STORE[operator](store, int)
