"""The top pages without a broker."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

from examples.top_pages.app import SIZE, K, started, topology
from logstate import TopologyTestDriver

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


def test_each_window_has_its_ten_most_viewed_pages_despite_a_crash() -> None:
    seen = views(600, seed=6)
    with TopologyTestDriver(topology(), commit_every=20) as driver:
        for number, (page, time_ms) in enumerate(seen):
            driver.pipe("views", page, "visitor", timestamp=time_ms)
            if number == 300:
                driver.crash(loses_disk=True)
        driver.advance_wall_clock(2 * SIZE)
        found = dict(driver.read("top-pages", value=dict[str, list[tuple[int, str]]]))

    wanted = most_viewed(seen)
    assert {window: row["pages"] for window, row in found.items() if row} == wanted
    assert max(map(len, wanted.values())) == K
