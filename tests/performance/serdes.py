"""What each serde costs per record, encoded and decoded, in one process without a broker.

python -m tests.performance.serdes --records 200000
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import attrs
import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from pydantic import BaseModel

from logstate import serdes
from tests.performance.parser import parser_of

FIELDS = {"customer": "ada lovelace", "country": "de", "pieces": 3, "amount": 120.5}
_SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "customer", "type": "string"},
        {"name": "country", "type": "string"},
        {"name": "pieces", "type": "long"},
        {"name": "amount", "type": "double"},
    ],
}


class Struct(msgspec.Struct, frozen=True):
    """The order of all formats."""

    customer: str
    country: str
    pieces: int
    amount: float


@dataclass
class Data:
    """As a dataclass."""

    customer: str
    country: str
    pieces: int
    amount: float


@attrs.define
class Defined:
    """As a class of attrs."""

    customer: str
    country: str
    pieces: int
    amount: float


class Model(BaseModel):
    """As a model of pydantic."""

    customer: str
    country: str
    pieces: int
    amount: float


class Cost(NamedTuple):
    """Of one serde; microseconds are the best of all rounds."""

    name: str
    encode_us: float
    decode_us: float
    record_bytes: int


def message_class() -> Any:
    """The order as protoc would have generated it."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3")
    message = file.message_type.add(name="Order")
    for number, (name, type_) in enumerate(
        [("customer", 9), ("country", 9), ("pieces", 3), ("amount", 1)], start=1
    ):
        message.field.add(name=name, number=number, type=type_, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))


def orders() -> Iterator[tuple[str, Any, Any]]:
    """Each format's name, serde and value."""
    message, registry = message_class(), "mock://costs"
    yield "`msgspec.Struct`", serdes.json_of(Struct), Struct(**FIELDS)  # type: ignore[arg-type]
    yield "dataclass", serdes.json_of(Data), Data(**FIELDS)  # type: ignore[arg-type]
    yield "attrs", serdes.json_of(Defined), Defined(**FIELDS)  # type: ignore[arg-type]
    yield "pydantic", serdes.serde_of(Model, what="v"), Model(**FIELDS)  # type: ignore[arg-type]
    yield "`dict`, plain JSON", serdes.json, FIELDS
    framed = serdes.json_schema_of(Struct, registry=registry)
    yield "`json_schema_of(Struct)`", framed, Struct(**FIELDS)  # type: ignore[arg-type]
    yield "Protobuf", serdes.protobuf(message), message(**FIELDS)
    yield "Protobuf, framed", serdes.protobuf(message, registry=registry), message(**FIELDS)
    yield "Avro", serdes.avro(_SCHEMA), FIELDS
    yield "Avro, framed", serdes.avro(_SCHEMA, registry=registry), FIELDS


def measure(records: int, rounds: int = 5) -> list[Cost]:
    """The cost of each format."""
    found = []
    for name, serde, value in orders():
        write, read = serde.serializer("t", False), serde.deserializer("t", False)
        data = write(value)
        encode_us = min(_us_per_call(write, value, records) for _ in range(rounds))
        decode_us = min(_us_per_call(read, data, records) for _ in range(rounds))
        found.append(Cost(name, encode_us, decode_us, len(data)))
    return found


def table(costs: list[Cost]) -> str:
    """As it stands in the page about serdes."""
    lines = ["| | write | read | bytes |", "|---|---|---|---|"]
    lines += [
        f"| {c.name} | {c.encode_us:.2f} | {c.decode_us:.2f} | {c.record_bytes} |" for c in costs
    ]
    return "\n".join(lines)


def _us_per_call(call: Callable[[Any], Any], argument: Any, records: int) -> float:
    gc.disable()
    try:
        start = time.perf_counter()
        for _ in range(records):
            call(argument)
        return (time.perf_counter() - start) / records * 1e6
    finally:
        gc.enable()


def main() -> int:
    """Measure and print the table."""
    parser = parser_of("python -m tests.performance.serdes", __doc__)
    parser.add_argument("--records", type=int, default=200_000, help="per format and round")
    arguments = parser.parse_args()
    print(table(measure(arguments.records)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
