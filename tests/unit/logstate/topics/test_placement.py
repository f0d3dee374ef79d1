"""Where a reader may look for a key in one partition only, and where it must not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from logstate import json_of
from logstate.contracts.records import Record
from logstate.topics.manifest import manifest
from logstate.topology import Processor, StreamsBuilder, key_value_store
from tests.unit.logstate.plans import plan_of


class Remembers(Processor[str, int, str, int]):
    def process(self, record: Record[str, int]) -> None:
        self.context.store("seen").put("last", record.value)


def counted_as_it_comes(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=int).group_by_key().count(store="seen")


def counted_behind_a_repartition(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key=str, value=int)
    stream.group_by(str, key=str, name="by-value").count(store="seen")


def repartitioned_by_the_user(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key=str, value=int)
    placed = stream.repartition(name="mine", partitioner=lambda _t, _k, value, count: value % count)
    placed.group_by_key().count(store="seen")


def kept_with_other_keys(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key=str, value=int).repartition(name="again")
    stream.group_by_key(key=json_of(str)).count(store="seen")


def kept_by_a_processor(builder: StreamsBuilder) -> None:
    builder.add_store(key_value_store("seen", key=str, value=int))
    stream = builder.stream("in", key=str, value=int).repartition(name="again")
    stream.process(Remembers, stores=["seen"], name="remember")


def deduplicated_by_key(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key=str, value=int).repartition(name="again")
    stream.deduplicate_by_key(timedelta(seconds=1), store="seen")


def deduplicated_by_key_and_id(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key=str, value=int).repartition(name="again")
    stream.deduplicate_by_key_value(str, timedelta(seconds=1), id=str, store="seen")


@pytest.mark.parametrize(
    ("declare", "expected"),
    [
        (counted_as_it_comes, None),  # whoever writes the input chose the partition
        (counted_behind_a_repartition, "murmur2"),
        (repartitioned_by_the_user, None),
        (kept_by_a_processor, None),
        (deduplicated_by_key, "murmur2"),
        (deduplicated_by_key_and_id, None),  # its keys are more than what was hashed
        (kept_with_other_keys, None),  # its keys have other bytes than those that were hashed
    ],
)
def test_a_key_is_where_its_hash_says_if_the_application_put_it_there(
    declare: Callable[[StreamsBuilder], None], expected: str | None
) -> None:
    found = manifest(plan_of(declare, **{"in": 3}))

    assert found["stores"]["seen"]["placed_by"] == expected
