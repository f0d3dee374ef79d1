"""Which faults happen when: decided by the seed alone, before anything runs."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import NamedTuple

#: share of each kind of fault
WEIGHTS = {
    "sigkill": 34,
    "sigkill_two": 6,
    "sigkill_disk_lost": 8,
    "zombie": 16,
    "sigterm": 10,
    "broker_kill": 7,
    "broker_restart": 4,
    "network_refused": 6,
    "network_stalled": 6,
    "network_partly_reset": 5,
    "disk_full": 6,
}


class Event(NamedTuple):
    """One fault."""

    kind: str
    #: workers it hits
    victims: tuple[int, ...]
    #: quiet time before it
    after_s: float
    #: how long the fault lasts, or how long a dead worker stays dead
    lasts_s: float


def events(seed: int, count: int, workers: int, weights: Mapping[str, int]) -> list[Event]:
    """The faults of a seed; each kind occurs once before the dice decide."""
    rng = random.Random(seed)
    kinds = list(weights)
    rng.shuffle(kinds)
    kinds += rng.choices(list(weights), list(weights.values()), k=max(0, count - len(weights)))
    return [_event(kind, rng, workers) for kind in kinds[:count]]


def _event(kind: str, rng: random.Random, workers: int) -> Event:
    lasts_s = {
        # the session time-out is 2 s: sometimes others take over first
        "sigkill": rng.uniform(0.0, 2.5),
        "sigkill_two": rng.uniform(0.0, 2.5),
        "sigkill_disk_lost": rng.uniform(0.0, 2.5),
        "zombie": rng.uniform(2.4, 3.6),
        "sigterm": rng.uniform(0.0, 0.8),
        "broker_kill": rng.uniform(0.0, 0.5),
        "broker_restart": 0.0,
        "network_refused": rng.uniform(0.3, 2.8),
        "network_stalled": rng.uniform(0.3, 2.8),
        "network_partly_reset": 0.1,
        "disk_full": rng.uniform(0.8, 1.6),
    }[kind]
    victims = rng.sample(range(workers), 2 if kind == "sigkill_two" else 1)
    return Event(kind, tuple(victims), rng.uniform(0.1, 0.8), lasts_s)
