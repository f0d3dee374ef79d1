"""Reads the committed outputs: whether each count follows the one before it, and when they came."""

from __future__ import annotations

import itertools
import threading
import time
from collections import defaultdict
from statistics import median

import msgspec
from confluent_kafka import Consumer, TopicPartition

PARTITIONS = 12
_BATCH = 20_000
_POLL_S = 0.01


class Counted(msgspec.Struct):
    """What is looked at of an output."""

    count: int


class Watcher:
    """Reads a topic in a thread of its own, until ``close``."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "elastic-watcher",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 100,
            }
        )
        self._consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
        self._counts: dict[bytes, int] = defaultdict(int)
        self._decode = msgspec.json.Decoder(Counted).decode
        self.outputs = 0
        #: counts that came again, and counts that never came
        self.duplicated = self.lost = 0
        #: partition -> when outputs came, in seconds of this machine's clock
        self.arrivals: list[list[float]] = [[] for _ in range(PARTITIONS)]
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_closing.is_set():
            messages = self._consumer.consume(_BATCH, _POLL_S)
            now = time.time()
            for message in messages:
                if message.error():
                    continue
                key, count = message.key(), self._decode(message.value()).count
                before = self._counts[key]
                if count <= before:
                    self.duplicated += 1
                else:
                    self.lost += count - before - 1
                    self._counts[key] = count
            for partition in {m.partition() for m in messages if not m.error()}:
                self.arrivals[partition].append(now)
            self.outputs += sum(1 for m in messages if not m.error())

    def pause_ms(self, partition: int, since_s: float, until_s: float) -> float:
        """The longest time without an output of a partition, in what lies between the two."""
        start_s, end_s = self.pause(partition, since_s, until_s)
        return 1_000 * (end_s - start_s)

    def pause(self, partition: int, since_s: float, until_s: float) -> tuple[float, float]:
        """When that was."""
        times = self.arrivals[partition]
        before = [t for t in times[-100_000:] if t <= since_s][-1:]
        inside = [t for t in times if since_s < t <= until_s]
        found = [*before, *inside, until_s]
        return max(itertools.pairwise(found), key=lambda pair: pair[1] - pair[0])

    def every_ms(self, since_s: float, until_s: float) -> float:
        """The median time between outputs of a partition that came together."""
        inside = ([t for t in times if since_s < t <= until_s] for times in self.arrivals)
        return 1_000 * median(b - a for times in inside for a, b in itertools.pairwise(times))

    def first_after_ms(self, partition: int, since_s: float) -> float:
        """The end of the longest pause that began about ``since_s``, in milliseconds from there."""
        times = [t for t in self.arrivals[partition] if t > since_s - 1]
        gaps = [(b - a, b) for a, b in itertools.pairwise(times)]
        return 1_000 * (max(gaps)[1] - since_s)

    def wait_for(self, outputs: int, limit_s: float) -> bool:
        """Whether there are so many outputs in time."""
        deadline = time.monotonic() + limit_s
        while self.outputs < outputs and time.monotonic() < deadline:
            time.sleep(0.1)
        return self.outputs >= outputs

    def close(self) -> None:
        """Read no more."""
        self._is_closing.set()
        self._thread.join(10)
        self._consumer.close()
