"""Header names that are not UTF-8: the Python client cannot read them, and producers write them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from logstate import Application, StreamsBuilder
from logstate.contracts.records import Record, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from logstate.topology import Processor
from tests.broker.raw_topic import create_topic, write_named_headers
from tests.patience import until

WRITTEN = [
    (b"one", [(b"good", b"1")]),
    (b"two", [(b"good", b"1"), (b"caf\xe9", b"2"), (b"last", b"3")]),
    (b"three", [(b"caf\xe9s", b"1"), (b"b\xff", b"2"), (b"caf\xc3\xa9", b"3")]),
    (b"four", []),
    (b"five", [(b"\xed\xa0\x80", b"1")]),
]
READ = {
    "one": [("good", b"1")],
    "two": [("good", b"1"), ("caf\ufffd", b"2"), ("last", b"3")],
    "three": [("caf\ufffds", b"1"), ("b\ufffd", b"2"), ("café", b"3")],
    "four": None,
    "five": [("\ufffd\ufffd\ufffd", b"1")],
}


#: the client's objects report the first name that they cannot decode, and not the second
READ_BY_OBJECTS = {**READ, "three": [("caf\ufffds", b"1"), ("\ufffd", b"2"), ("café", b"3")]}


class Remembers(Processor[Any, str, Any, str]):
    seen: dict[str, Any]

    def process(self, record: Record[Any, str]) -> None:
        self.seen[record.value] = record.headers
        self.context.forward(record)


def test_malformed_header_names_are_replaced_as_the_java_client_replaces_them(
    way: str,
    bootstrap: str,
    unique: Callable[[str], str],
    tmp_path: Path,
) -> None:
    expected = READ if way == "extension" else READ_BY_OBJECTS
    name = unique("header-names")
    for topic in (f"{name}-in", f"{name}-out"):
        create_topic(bootstrap, topic)
    write_named_headers(bootstrap, f"{name}-in", WRITTEN)
    seen: dict[str, Any] = {}
    builder = StreamsBuilder()
    remembers = type("RemembersHere", (Remembers,), {"seen": seen})
    builder.stream(f"{name}-in", value=str).process(remembers, key=bytes, value=str).to(
        f"{name}-out"
    )
    app = Application(builder.build(), application_id=name, bootstrap=bootstrap, state_dir=tmp_path)
    copies: dict[str, Any] = {}
    reader = KafkaCluster(bootstrap).log_consumer()
    reader.assign({TopicPartition(f"{name}-out", 0): 0})

    def are_copied() -> bool:
        for records in reader.poll(100, 0.2).records.values():
            copies.update({one.value().decode(): one.headers() for one in records})
        return len(copies) == len(WRITTEN)

    with app:
        until(are_copied, lambda: f"copied: {copies}")
    reader.close()

    assert seen == expected
    assert copies == expected
