"""Input topics: written once per broker and size, and used again by every run."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import msgspec

from tests.performance.events import (
    Event,
    Expected,
    ExpectedWindows,
    key_name,
    padded,
    write_events,
)
from tests.performance.settings import PARTITIONS, Settings
from tests.performance.topics import Loader, Topics

_KEPT = {"retention.ms": "-1", "compression.type": "producer"}
_HOUR_MS = 3_600_000


def events_topic(settings: Settings) -> str:
    """The topic's name says what is in it."""
    name = f"in-events-{settings.records}-{settings.keys}"
    if settings.partitions != PARTITIONS:
        name += f"-{settings.partitions}p"
    return f"{name}-{settings.record_bytes}b" if settings.record_bytes else name


def ensure_events(settings: Settings, topics: Topics) -> Expected:
    """Load the events unless they are there, and say what the outputs must add up to."""
    topic = events_topic(settings)
    file = settings.work / f"{topic}.msgpack"
    cluster_id = topics.cluster_id()
    if file.exists() and topics.exists(topic):
        expected = msgspec.msgpack.decode(file.read_bytes(), type=Expected)
        if expected.cluster_id == cluster_id and topics.end(topic) == settings.records:
            return expected
    print(f"loading {settings.records:,} events into {topic} (once per broker)", file=sys.stderr)
    topics.delete(topic)
    topics.create(topic, **_KEPT)
    loader = Loader(settings.bootstrap)

    def send(event: Event) -> None:
        value = padded(event.value, settings.record_bytes)
        loader.send(topic, event.key.encode(), value, event.timestamp)

    expected, windows = write_events(settings.records, settings.keys, cluster_id, send)
    loader.flush()
    _windows_file(settings).write_bytes(msgspec.msgpack.encode(windows))
    file.write_bytes(msgspec.msgpack.encode(expected))
    return expected


def expected_windows(settings: Settings) -> ExpectedWindows:
    """What the window workload must add up to; after :func:`ensure_events`."""
    return msgspec.msgpack.decode(_windows_file(settings).read_bytes(), type=ExpectedWindows)


def ensure_users(settings: Settings, topics: Topics, base_ms: int) -> str:
    """The table that events are joined with: one row per key, older than every event."""
    topic = f"in-users-{settings.keys}-{base_ms}"
    if topics.exists(topic) and topics.end(topic) == settings.keys:
        return topic
    topics.delete(topic)
    topics.create(topic, **_KEPT)
    rng, loader = random.Random(7), Loader(settings.bootstrap)
    for number in range(settings.keys):
        country, tier = rng.randrange(60), rng.randrange(5)
        value = f'{{"name":"User {number:06d}","country":"{country:02d}","tier":{tier}}}'
        loader.send(topic, key_name(number).encode(), value.encode(), base_ms - _HOUR_MS)
    loader.flush()
    return topic


def load_state(settings: Settings, topics: Topics, topic: str) -> dict[int, tuple[bytes, bytes]]:
    """One record of 100 bytes per key; gives a (key, value) to ask for, per partition."""
    topics.create(topic, **_KEPT)
    rng, loader = random.Random(3), Loader(settings.bootstrap)
    probes: dict[int, tuple[bytes, bytes]] = {}

    def remember(error: object, message: object) -> None:
        if error is None:
            probes[message.partition()] = message.key(), message.value()  # type: ignore[attr-defined]

    now_ms = int(time.time() * 1000)
    every = max(1, settings.records // 200)
    for number in range(settings.records):
        value = f"{number:07d}{rng.randbytes(46).hex()}!".encode()
        callback = remember if number % every == 0 else None
        loader.send(topic, f"k{number:07d}".encode(), value, now_ms, on_delivery=callback)
    loader.flush()
    return probes


def _windows_file(settings: Settings) -> Path:
    return settings.work / f"{events_topic(settings)}-windows.msgpack"
