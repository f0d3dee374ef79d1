"""Feeds the latency workload: so many records per second, each with the time it was written.

Run as a process of its own, so that its own work does not delay the observer.
"""

from __future__ import annotations

import argparse
import random
import time

from confluent_kafka import Producer

from tests.performance.events import event_value, random_key

_TICK_S = 0.005
_PREPARED = 50_000
_PAGE = "/shop/category-001/item-000001/variant-01?ref=home"


def feed(bootstrap: str, topic: str, records_per_s: int, seconds: int, keys: int) -> None:
    """Write ``records_per_s * seconds`` records, five milliseconds' worth at a time."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 0,
            "compression.type": "none",
            "partitioner": "murmur2",
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    rng = random.Random(9)
    prepared = [(random_key(rng, keys), round(rng.random() * 100, 2)) for _ in range(_PREPARED)]
    total, per_tick = records_per_s * seconds, max(1, int(records_per_s * _TICK_S))
    start_s = time.time() + 0.2
    sent = 0
    while sent < total:
        wait_s = start_s + sent / records_per_s - time.time()
        if wait_s > 0:
            time.sleep(wait_s)
        for _ in range(min(per_tick, total - sent)):
            key, amount = prepared[sent % _PREPARED]
            now_ms = round(time.time() * 1000, 3)
            value = event_value(key, amount, now_ms, _PAGE)
            producer.produce(topic, value, key, timestamp=int(now_ms))
            sent += 1
        producer.poll(0)
    producer.flush()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records-per-s", type=int, required=True)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--keys", type=int, required=True)
    a = parser.parse_args()
    feed(a.bootstrap, a.topic, a.records_per_s, a.seconds, a.keys)


if __name__ == "__main__":
    main()
