"""The partitioner's vectors: murmur2 of a key, and its partition among 1 to 64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from logstate.contracts.partitioner import murmur2, partition_of

from .compare import Difference


def partitioner_differences(data: dict[str, Any]) -> Iterator[Difference]:
    """Every key whose hash or whose partition differs."""
    for index, vector in enumerate(data["vectors"]):
        key = bytes.fromhex(vector["key"])
        where = f"vectors[{index}]"
        if "text" in vector and vector["text"].encode() != key:
            yield Difference(f"{where}.text", vector["text"], key)
        if murmur2(key) != vector["murmur2"]:
            yield Difference(f"{where}.murmur2", vector["murmur2"], murmur2(key))
        counts = range(1, len(vector["partitions"]) + 1)
        partitions = [partition_of(key, count) for count in counts]
        if partitions != vector["partitions"]:
            yield Difference(f"{where}.partitions", vector["partitions"], partitions)
