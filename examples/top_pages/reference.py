"""Views from a seed, and their ranking by hand."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

from examples.top_pages.app import SIZE, K, started

MINUTE_MS = 60_000
START_MS = 1_700_000_100_000


def views(count: int, seed: int) -> list[tuple[str, int]]:
    """Draw page and time of views within 20 minutes, some up to 20 seconds late."""
    rng = random.Random(seed)  # noqa: S311  drawn again from the seed, not secret
    found = []
    for number in range(count):
        late_ms = rng.choice((0, 0, 0, rng.randrange(20_000)))
        page = f"page-{int(rng.paretovariate(0.7)) % 60:02}"
        found.append((page, START_MS + number * 20 * MINUTE_MS // count - late_ms))
    return found


def most_viewed(seen: list[tuple[str, int]]) -> dict[str, list[tuple[int, str]]]:
    size_ms = int(SIZE.total_seconds() * 1_000)
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for page, time_ms in seen:
        counts[started(time_ms // size_ms * size_ms)][page] += 1
    return {
        window: sorted(((n, page) for page, n in pages.items()), reverse=True)[:K]
        for window, pages in counts.items()
    }
