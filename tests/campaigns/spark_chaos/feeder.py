"""Steady load for every input, in event-time order but for some late events."""

from __future__ import annotations

import random
import threading
import time

from confluent_kafka import KafkaException, Producer

from tests.campaigns.spark_chaos.flow import BASKETS, EVENTS, ITEMS, MARK, NO_MARK, ORDER, PAYMENT

USERS = 40
_BASKETS, _ITEMS = 120, 12
#: one in so many events is late, by more than any window and grace
_LATE_ONE_IN, _LATE_MS = 20, 9_000
_KINDS = random.Random(0).choices((ORDER, PAYMENT, MARK), (60, 32, 8), k=997)


class Feeder:
    """Writes in a thread of its own until ``stop``. What counts is what reached the logs.

    Event time keeps the pace of the wall clock; a payment is for one of the last orders' users.
    """

    def __init__(self, bootstrap: str, prefix: str, seed: int, per_second: int) -> None:
        self._prefix = prefix
        self._random = random.Random(seed)
        self._per_second = per_second
        self._now_ms = time.time_ns() // 1_000_000
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ordered: list[str] = ["user-0"]
        self.sent = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "log_level": 2,
            }
        )

    def start(self) -> None:
        """The items are there before their baskets."""
        for number in range(_ITEMS):
            self._send(ITEMS, f"item-{number}", f"price-{number}")
        assert self._producer.flush(120) == 0
        self._thread.start()

    def stop(self) -> None:
        """Return when everything was delivered."""
        self._stopping.set()
        self._thread.join(120)
        assert self._producer.flush(120) == 0

    def _run(self) -> None:
        while not self._stopping.wait(0.1):
            for _ in range(max(1, self._per_second // 10)):
                self._send_event()
            self._producer.poll(0)

    def _send_event(self) -> None:
        number, draw = self.sent, self._random.randrange
        self.sent += 1
        self._now_ms += 1_000 // self._per_second
        kind = _KINDS[number % len(_KINDS)]
        user = f"user-{draw(USERS)}"
        value = f"{kind}-{number}"
        if kind == PAYMENT:
            user = self._ordered[draw(len(self._ordered))]
        elif kind == ORDER:
            self._ordered = [*self._ordered[-9:], user]
        elif draw(4) == 0:
            value = NO_MARK
        self._send(EVENTS, user, value, _LATE_MS if draw(_LATE_ONE_IN) == 0 else 0)
        if draw(10) == 0:
            self._send(BASKETS, f"basket-{draw(_BASKETS)}", f"item-{draw(_ITEMS)}:{number}")
        if draw(40) == 0:
            self._send(ITEMS, f"item-{draw(_ITEMS)}", f"price-{number}")

    def _send(self, topic: str, key: str, value: str, late_ms: int = 0) -> None:
        try:
            self._producer.produce(
                f"{self._prefix}-{topic}",
                value.encode(),
                key.encode(),
                timestamp=self._now_ms - late_ms,
            )
        except (KafkaException, BufferError):
            return  # what is not sent is not input
