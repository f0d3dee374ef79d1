"""What processors forward is a record, or is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from logstate import ErrorHandlers, ProcessingError, Processor, Record, StreamsBuilder, skip
from logstate.testing import TopologyTestDriver


class Forwarding(Processor[str, str, str, str]):
    """Forwards what it was given as value's meaning."""

    made: Any = None

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(self.made if record.value == "bad" else record)


def built(made: Any) -> StreamsBuilder:
    made_of = type("Made", (Forwarding,), {"made": made})
    builder = StreamsBuilder()
    builder.stream("in", value=str).process(made_of, key=str, value=str, name="p").to("out")
    return builder


@pytest.mark.parametrize(
    ("made", "found"),
    [
        (("a", "b"), r"\('a', 'b'\) \(tuple\)"),
        (None, r"None \(NoneType\)"),
        ("v", r"'v' \(str\)"),
        (5, r"5 \(int\)"),
    ],
)
def test_what_is_no_record_is_refused_by_name(made: Any, found: str) -> None:
    wanted = (
        rf"test_forwarded\.py:\d+ in process: TypeError: Processor 'p' forwarded {found}, which"
    )
    with (
        TopologyTestDriver(built(made).build()) as driver,
        pytest.raises(ProcessingError, match=wanted),
    ):
        driver.pipe("in", "k", "bad")


def test_a_record_whose_processor_forwards_none_can_be_skipped() -> None:
    handlers = ErrorHandlers(processing=skip)
    with TopologyTestDriver(built(("a", "b")).build(), error_handlers=handlers) as driver:
        driver.pipe("in", "k", "bad")
        driver.pipe("in", "k", "v")
        assert driver.read("out", value=str) == [("k", "v")]
