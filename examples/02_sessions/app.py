"""What does a visitor do in one sitting? Sessions, reported once, when they are over.

    clicks (by visitor) ── sessions of activity ── summary ── visits

A visit ends after half an hour without a click. Clicks may come up to five minutes late.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from logstate import Materialized, SessionWindows, StreamsBuilder, Topology, Windowed

GAP = timedelta(minutes=30)
LATENESS = timedelta(minutes=5)
# A visit is over when a later click shows it, anybody's: at night that may take hours. Until then
# the store has to keep it.
QUIET_AT_MOST = timedelta(days=2)


class Summary(msgspec.Struct, frozen=True):
    """What is known of a visit while it goes on."""

    clicks: int = 0
    first_page: str = ""
    last_page: str = ""


class Visit(msgspec.Struct, frozen=True):
    """A finished visit."""

    seconds: int
    clicks: int
    entered_at: str
    left_at: str


def with_click(summary: Summary, page: str) -> Summary:
    return Summary(summary.clicks + 1, summary.first_page or page, page)


def together(earlier: Summary, later: Summary) -> Summary:
    """Two visits turn out to be one: a late click fills the pause between them."""
    return Summary(
        earlier.clicks + later.clicks,
        earlier.first_page or later.first_page,
        later.last_page or earlier.last_page,
    )


def finished(window: Windowed[str], summary: Summary) -> Visit:
    seconds = (window.end_ms - window.start_ms) // 1_000
    return Visit(seconds, summary.clicks, summary.first_page, summary.last_page)


def topology() -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", key=str, value=str)
    visits = Materialized("visits", retention=QUIET_AT_MOST)
    (
        clicks.group_by_key()
        .windowed_by(SessionWindows(gap=GAP, grace=LATENESS))
        .aggregate(Summary, with_click, together, value=Summary, store=visits, emit="close")
        .to_stream()
        .map(lambda window, summary: (window.key, finished(window, summary)), key=str, value=Visit)
        .to("visits")
    )
    return builder.build()


if __name__ == "__main__":
    from examples.playground import play

    play(topology(), application_id="sessions")
