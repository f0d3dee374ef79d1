"""Samples of a stream: records whose hash is below a limit, or every n-th record of a partition.

The hash is BLAKE2b of 8 bytes, of the bytes of the key, or of the topic, partition and offset of
the record, and of the seed. So it has no state, and the same records are forwarded again. It is
independent of murmur2, which chooses the partition of a key: each partition has its part of the
sample.

Every n-th record needs a count per task. It is a clock of the task, so each commit has it, and a
crash, a move and an abort continue it as they continue the input positions.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.serde import Serde
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode

_HASH_BYTES = 8


def sampler(fraction: float, seed: int) -> Callable[[bytes], bool]:
    """Return a function that says whether bytes belong to the sample.

    >>> sampler(0.0, 0)(b"ada"), sampler(1.0, 0)(b"ada")
    (False, True)
    """
    limit = int(fraction * 2 ** (8 * _HASH_BYTES))
    salt, to_int = seed.to_bytes(8, "big", signed=True), int.from_bytes

    def belongs(data: bytes) -> bool:
        return to_int(blake2b(data, digest_size=_HASH_BYTES, salt=salt).digest(), "big") < limit

    return belongs


class SampleNode(ProcessorNode):
    """``key``: the serde of the keys, which decide; None: the places of the records do."""

    passes_on = True

    fraction: float
    seed: int
    key: Serde[Any] | None

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        belongs = sampler(self.fraction, self.seed)
        serialize = None if self.key is None else self.key.serializer(self.name, True)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if serialize is None or key is None:
                data = f"{task.topic}:{task.partition}:{task.offset}".encode()
            else:
                data = serialize(key)
            if belongs(data):
                forward(key, value, timestamp, headers)

        return process


class SampleEveryNode(ProcessorNode):
    """Forwards the records number ``every``, 2 * ``every`` and so on of those that reach it."""

    passes_on = True

    every: int

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        every = self.every
        # how many records came since the last one that was forwarded; -1 at first
        count = task.time_cell(f"count:{self.name}")

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            number = max(count.time, 0) + 1
            count.time = 0 if number >= every else number
            if number >= every:
                forward(key, value, timestamp, headers)

        return process
