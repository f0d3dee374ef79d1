"""What a transformer of a table finds around it when a join reads a row of its result."""

from __future__ import annotations

from typing import Any

import pytest

from logstate import StreamsBuilder, TopologyTestDriver, ValueTransformer, key_value_store
from logstate.contracts.errors import ProcessingError
from logstate.topology import Topology


class Sourced(ValueTransformer[str, str, str]):
    """Says of which record a value was made, and notes that it was asked."""

    def transform(self, key: str, value: str | None) -> str | None:
        if value == "bad":
            raise LookupError("no such value")
        self.context.store("asked").put(key, value or "nothing")
        found = self.context.record_metadata()
        source = None if found is None else (found.topic, found.partition, found.offset)
        return None if value is None else f"{value}@{source}"


def joined(transformed: Any = Sourced) -> Topology:
    builder = StreamsBuilder()
    read = builder.table("read", key=str, value=str, store="read")
    sourced = read.transform_values(
        transformed, stores=[key_value_store("asked", str, str)], value=str
    )
    other = builder.table("other", key=str, value=str, store="other")
    result = other.join(sourced, lambda mine, its: f"{mine} {its}", value=str)
    result.to_stream().to("out")
    return builder.build()


def test_a_transformer_has_no_record_while_a_join_reads_its_row() -> None:
    with TopologyTestDriver(joined()) as driver:
        driver.pipe("other", "k", "o", timestamp=1)
        driver.pipe("read", "k", "r", timestamp=5)
        driver.pipe("other", "k", "o", timestamp=9)
        assert driver.read_with_timestamps("out", key=str, value=str) == [
            ("k", "o r@('read', 0, 0)", 5),
            ("k", "o r@None", 9),
        ]


def test_what_it_writes_then_is_of_the_time_of_the_row() -> None:
    with TopologyTestDriver(joined(), application_id="app") as driver:
        driver.pipe("read", "k", "r", timestamp=5)
        driver.pipe("other", "k", "o", timestamp=9)
        driver.pipe("other", "none", "o", timestamp=11)
        written = driver.changelog("app-asked-changelog")
        assert [(one.value, one.timestamp) for one in written] == [
            (b"r", 5),
            (b"r", 5),
            (b"nothing", 11),
        ]


def test_a_failure_then_is_that_of_the_record_that_made_the_join_read() -> None:
    class Fails(Sourced):
        def transform(self, key: str, value: str | None) -> str | None:
            if value is not None and self.context.record_metadata() is None:
                raise LookupError("no record")
            return value

    with TopologyTestDriver(joined(Fails)) as driver:
        driver.pipe("read", "k", "r", timestamp=5)
        with pytest.raises(ProcessingError, match=r"other.*offset 0.*no record"):
            driver.pipe("other", "k", "o", timestamp=9)
