"""Logs of queries and clicks from a seed: late, out of order, and repeated."""

from __future__ import annotations

import random
from collections import Counter
from typing import NamedTuple

from examples.click_join.app import Click, Joined, Query

START_MS = 1_700_000_000_000
LATE_MS = 60_000


class Entry(NamedTuple):
    """A record of the topic ``queries`` or ``clicks``; the key is the id of the query."""

    topic: str
    key: str
    value: Query | Click
    time_ms: int


def logs(queries: int, seed: int) -> list[Entry]:
    """Return the entries in the order of their arrival, some twice and one third late."""
    rng = random.Random(seed)  # noqa: S311  drawn again from the seed, not secret
    arrivals: list[tuple[int, Entry]] = []
    for number in range(queries):
        key, time_ms = f"q-{number}", START_MS + number * 200
        entries = [Entry("queries", key, Query(f"text {number}"), time_ms)]
        entries += [
            Entry("clicks", key, Click(f"{key}-{n}", f"ad-{rng.randrange(9)}"), time_ms + 50 + n)
            for n in range(rng.choice((0, 1, 1, 2)))
        ]
        if number % 10 == 9:
            entries.pop(0)  # the log of its server is lost
        for entry in entries:
            late_ms = rng.choice((0, 0, rng.randrange(LATE_MS)))
            arrivals.append((entry.time_ms + late_ms, entry))
            if rng.randrange(5) == 0:
                arrivals.append((entry.time_ms + late_ms + rng.randrange(LATE_MS), entry))
    arrivals.sort(key=lambda arrival: arrival[0])
    return [entry for _, entry in arrivals]


def joined(entries: list[Entry]) -> Counter[Joined]:
    """Return what the join has to send, each once."""
    texts = {one.key: one.value.text for one in entries if isinstance(one.value, Query)}
    clicks = {(one.key, one.value) for one in entries if isinstance(one.value, Click)}
    return Counter(Joined(click.id, click.ad, texts[key]) for key, click in clicks if key in texts)
