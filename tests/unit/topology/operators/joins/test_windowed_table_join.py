"""Tables of windows, joined window by window."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.records import Windowed
from logstate.testing import TopologyTestDriver
from logstate.topology import KTable, StreamsBuilder, TumblingWindows

TEN = timedelta(milliseconds=10)
HOUR = timedelta(hours=1)


def driver() -> TopologyTestDriver:
    builder = StreamsBuilder()
    windows = TumblingWindows(size=TEN, grace=HOUR)

    def counts(topic: str) -> KTable[Windowed[str], int]:
        grouped = builder.stream(topic, key=str, value=str, name=topic).group_by_key()
        return grouped.windowed_by(windows).count(store=f"{topic}-counts")

    joined = counts("left").join(counts("right"), lambda a, b: 100 * a + b, value=int, name="j")
    joined.to_stream(lambda w, both: f"{w.key}@{w.start_ms}", key=str).to("out", value=int)
    return TopologyTestDriver(builder.build())


@given(
    records=st.lists(
        st.tuples(st.sampled_from(["left", "right"]), st.sampled_from("ab"), st.integers(0, 40)),
        max_size=25,
    )
)
def test_a_window_meets_the_other_tables_row_of_the_same_key_and_window(
    records: list[tuple[str, str, int]],
) -> None:
    counts: dict[tuple[str, str, int], int] = {}
    with driver() as running:
        for topic, key, time in records:
            running.pipe(topic, key, "x", timestamp=time)
            start = time // 10 * 10
            counts[topic, key, start] = counts.get((topic, key, start), 0) + 1
            left, right = (counts.get((side, key, start), 0) for side in ("left", "right"))
            expected = [(f"{key}@{start}", 100 * left + right)] if left and right else []
            assert running.read("out", value=int) == expected
