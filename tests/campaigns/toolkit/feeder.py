"""A steady load from a thread."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from confluent_kafka import KafkaException, Producer

from tests.patience import PATIENCE_S

_TICK_S = 0.1


class Feeder(ABC):
    """Calls ``send_next`` at a steady rate until ``stop``.

    What a producer did not deliver is not input: a campaign compares results with what the logs
    contain.
    """

    def __init__(self, bootstrap: str, per_second: int) -> None:
        self._per_tick = max(1, int(per_second * _TICK_S))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "log_level": 2,
            }
        )
        #: records that the producer accepted
        self.sent = 0
        #: records that it could not deliver before ``stop`` gave up
        self.undelivered = 0

    @abstractmethod
    def send_next(self) -> None:
        """Send one record, or several that belong together."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait until everything is delivered."""
        self._stopping.set()
        self._thread.join(PATIENCE_S)
        self.undelivered = self.flush()

    def send(self, topic: str, key: str, value: str, time_ms: int) -> bool:
        """Send one record; False if the producer refuses it because the brokers are away."""
        try:
            self._producer.produce(topic, value.encode(), key.encode(), timestamp=time_ms)
        except (KafkaException, BufferError):
            return False
        return True

    def flush(self) -> int:
        """Deliver the sent records, and return how many are left."""
        return self._producer.flush(PATIENCE_S)

    def _run(self) -> None:
        while not self._stopping.wait(_TICK_S):
            for _ in range(self._per_tick):
                self.send_next()
            self._producer.poll(0)
