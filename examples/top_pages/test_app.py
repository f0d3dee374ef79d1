"""The top pages without a broker."""

from __future__ import annotations

from examples.top_pages.app import SIZE, K, topology
from examples.top_pages.reference import most_viewed, views
from logstate import TopologyTestDriver


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
