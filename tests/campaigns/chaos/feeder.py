"""Steady load: orders and their payments, in event-time order but for some late ones."""

from __future__ import annotations

import random
import threading

from confluent_kafka import KafkaException, Producer

USERS = 60
#: event time between two orders
STEP_MS = 10
START_MS = 1_700_000_000_000
#: one in so many orders is late by more than window and grace
_LATE_ONE_IN, _LATE_MS = 20, 12_000


class Feeder:
    """Writes in a thread of its own until ``stop``. What counts is what reached the logs."""

    def __init__(self, bootstrap: str, prefix: str, seed: int, per_second: int) -> None:
        self._bootstrap = bootstrap
        self._prefix = prefix
        self._rng = random.Random(seed)
        self._per_second = per_second
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.sent = 0
        self.undelivered = 0
        self._producer = self._new_producer()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Return when everything was delivered."""
        self._stopping.set()
        self._thread.join(120)
        self.undelivered = self._producer.flush(120)

    def _run(self) -> None:
        while not self._stopping.wait(0.1):
            for _ in range(self._per_second // 10):
                self._send_one()
            self._producer.poll(0)

    def _send_one(self) -> None:
        number = self.sent
        user = f"user-{self._rng.randrange(USERS)}"
        late_ms = _LATE_MS if self._rng.randrange(_LATE_ONE_IN) == 0 and number > 2_000 else 0
        when = START_MS + number * STEP_MS - late_ms - (5 if late_ms else 0)
        try:
            for topic, value in (("orders", f"o-{number}"), ("payments", f"p-{number}")):
                self._producer.produce(
                    f"{self._prefix}-{topic}", value.encode(), user.encode(), timestamp=when
                )
        except (KafkaException, BufferError):
            return  # the brokers are away for long: an order without its payment is input too
        self.sent += 1

    def _new_producer(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "log_level": 2,
            }
        )
