"""A constant load until SIGTERM.

Run ``python -m tests.campaigns.elastic.load BOOTSTRAP KEYS PER_SECOND``.

Every key once, as fast as it goes (not with ``--steady``); then keys at random, evenly in time. It
prints ``loaded`` when the former are on the broker, and the number of all records at its end.
"""

from __future__ import annotations

import argparse
import random
import signal
import threading
import time

from confluent_kafka import Producer

from tests.performance.events import event_value, key_name
from tests.performance.topics import Loader

TOPIC = "in"
_TICK_S = 0.02


def load_once(bootstrap: str, keys: int) -> None:
    """Each key."""
    loader = Loader(bootstrap)
    for number in range(keys):
        key = key_name(number)
        loader.send(TOPIC, key.encode(), event_value(key, 1.0, 0, ""), _now_ms())
    loader.flush()


def load(bootstrap: str, keys: int, per_second: int, stopped: threading.Event) -> int:
    """Keys at random, evenly in time; returns how many records were written."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 25, "partitioner": "murmur2", "acks": "all"}
    )
    rng, sent, start_s = random.Random(9), 0, time.time()
    while not stopped.is_set():
        wait_s = start_s + sent / per_second - time.time()
        if wait_s > 0:
            time.sleep(max(wait_s, _TICK_S))
        for _ in range(max(1, int(per_second * _TICK_S))):
            key = key_name(rng.randrange(keys))
            producer.produce(TOPIC, event_value(key, 1.0, 0, ""), key, timestamp=_now_ms())
            sent += 1
        producer.poll(0)
    producer.flush()
    return sent


def _now_ms() -> int:
    return int(time.time() * 1_000)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("keys", type=int)
    parser.add_argument("per_second", type=int)
    parser.add_argument("--steady", action="store_true")
    a = parser.parse_args()
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    if not a.steady:
        load_once(a.bootstrap, a.keys)
    print("loaded", flush=True)
    sent = load(a.bootstrap, a.keys, a.per_second, stopped)
    print(sent if a.steady else a.keys + sent, flush=True)


if __name__ == "__main__":
    main()
