"""Top speed per car and minute, sent once per minute. The subject of test_app.py.

speeds (by car) ── minutes ── top speed ── hold until the minute is over ── top-speeds
"""

from __future__ import annotations

from datetime import timedelta

from logstate import StreamsBuilder, Topology, TumblingWindows, until_window_closes

MINUTE = TumblingWindows(size=timedelta(minutes=1), grace=timedelta(seconds=10))


def higher(top: float, speed: float) -> float:
    return max(top, speed)


def topology() -> Topology:
    builder = StreamsBuilder()
    (
        builder.stream("speeds", key=str, value=float, name="speeds")
        .filter(lambda speed: 0 <= speed < 500, name="plausible")
        .group_by_key()
        .windowed_by(MINUTE)
        .reduce(higher, store="top-speeds", name="top-speed")
        .suppress(until_window_closes(), name="finished")
        .to_stream(lambda window, _: window.key, key=str, name="car")
        .to("top-speeds", name="out")
    )
    return builder.build()


if __name__ == "__main__":
    from examples.playground import play

    play(topology(), application_id="speeds")
