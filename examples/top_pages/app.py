"""The most viewed pages of each five minutes.

    views (by page) ── count per window ── when it closes: by window ── ten greatest ── top-pages

Counts are computed by page, on all partitions. A window's final counts meet in one row, which has
ten of them, however many pages there are.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from logstate import Materialized, StreamsBuilder, TopN, Topology, TumblingWindows

SIZE, GRACE = timedelta(minutes=5), timedelta(seconds=30)
#: how far event time may jump, as after a night without views
QUIET_AT_MOST = timedelta(days=2)
K = 10


def topology(prefix: str = "") -> Topology:
    builder = StreamsBuilder()
    views = builder.stream(f"{prefix}views", key=str, value=str)
    counts = (
        views.group_by_key()
        .windowed_by(TumblingWindows(size=SIZE, grace=GRACE, close_on_idle=SIZE))
        .count(store=Materialized("counts", retention=QUIET_AT_MOST), emit="close")
    )
    by_window = counts.to_stream().map(
        lambda window, n: (started(window.start_ms), (n, window.key)),
        key=str,
        value=tuple[int, str],
    )
    top = by_window.group_by_key(name="by-window").agg(
        pages=TopN(lambda count: count, K, tuple[int, str]), store="top-pages"
    )
    top.to_stream().to(f"{prefix}top-pages")
    return builder.build()


def started(start_ms: int) -> str:
    return f"{datetime.fromtimestamp(start_ms / 1_000, UTC):%Y-%m-%d %H:%M}"


if __name__ == "__main__":
    from examples.playground import play

    play(topology(), application_id="top-pages")
