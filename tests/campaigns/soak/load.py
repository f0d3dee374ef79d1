"""The load, until SIGTERM.

Run ``python -m tests.campaigns.soak.load BOOTSTRAP RECORDS_PER_S COMPRESSION``.

Event time moves ``COMPRESSION`` times as fast as the clock, and begins so early that an hour of it
ends now: so as many windows come and go as in that many hours.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
import time

from confluent_kafka import Producer

from tests.campaigns.soak.flow import CLICKS, VIEWS
from tests.performance.events import key_name

_KEYS = 2_000
_TICK_S = 0.02
#: before a record is tried again that the full queue of the client has refused
_FULL_S = 0.5
_HOUR_MS = 3_600_000


def load(bootstrap: str, records_per_s: int, compression: int, ended: threading.Event) -> None:
    """Both topics by turns, so that each has half of the records."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 25, "partitioner": "murmur2", "acks": "all"}
    )
    rng, sent, start_s = random.Random(9), 0, time.monotonic()
    first_ms = int(time.time() * 1_000) - _HOUR_MS * compression
    while not ended.is_set():
        time.sleep(max(_TICK_S, start_s + sent / records_per_s - time.monotonic()))
        due = int((time.monotonic() - start_s) * records_per_s)
        for number in range(sent, due):
            at_ms = first_ms + number * 1_000 * compression // records_per_s
            topic = (CLICKS, VIEWS)[number % 2]
            key = key_name(rng.randrange(_KEYS))
            while True:
                try:
                    producer.produce(topic, b"v", key, timestamp=at_ms)
                    break
                except BufferError:  # the broker is slower than the load: it is made up later
                    producer.poll(_FULL_S)
        sent = max(sent, due)
        producer.poll(0)
    producer.flush()


def main() -> None:
    """The command line."""
    bootstrap, records_per_s, compression = sys.argv[1:]
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    load(bootstrap, int(records_per_s), int(compression), ended)


if __name__ == "__main__":
    main()
