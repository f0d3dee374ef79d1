"""Trimming a windowed changelog takes expired rows and nothing else."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from logstate.changelog.rows.layers import Layer
from logstate.changelog.segment_offsets import NeededRecords
from logstate.changelog.stored_meta import StoredMeta
from logstate.testing import TopologyTestDriver
from logstate.topology import Materialized, StreamsBuilder, TumblingWindows
from logstate.topology.plan.plan import Topology

SIZE_MS = 60_000
RETENTION_MS = 240_000


def counting() -> Topology:
    builder = StreamsBuilder()
    windows = TumblingWindows(size=timedelta(milliseconds=SIZE_MS), grace=timedelta(0))
    store = Materialized("counts", retention=timedelta(milliseconds=RETENTION_MS))
    builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows).count(store=store)
    return builder.build()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-90_000, 120_000)), max_size=60))
def test_a_trimmed_changelog_restores_the_same_live_rows(moves: list[tuple[str, int]]) -> None:
    with TopologyTestDriver(counting()) as driver:
        now = 1_000_000
        for key, move in moves:
            now += max(move, 0)
            driver.pipe("in", key, "x", timestamp=max(0, now + min(move, 0)))
        live = list(driver.store("counts").all())
        trim_point = driver.task.state.trim_points()["counts"]
        log = driver.changelog("app-counts-changelog")
        assert trim_point <= len(log)
        log[:trim_point] = log[-1:] * trim_point  # what was trimmed is never needed

        driver.crash()

        assert list(driver.store("counts").all()) == live


def test_the_trim_point_moves_on_with_stream_time() -> None:
    with TopologyTestDriver(counting()) as driver:
        points = []
        for minute in range(30):
            driver.pipe("in", "a", "x", timestamp=minute * SIZE_MS)
            points.append(driver.task.state.trim_points()["counts"])

    assert points == sorted(points)
    assert points[-1] >= 20


def test_trim_points_survive_a_crash_with_the_disk() -> None:
    with TopologyTestDriver(counting()) as driver:
        for minute in range(30):
            driver.pipe("in", "a", "x", timestamp=minute * SIZE_MS)
        before = driver.task.state.trim_points()

        driver.crash()

        assert driver.task.state.trim_points()["counts"] <= before["counts"]
        for minute in (60, 61):  # the second commit stores what the first one expired
            driver.pipe("in", "a", "x", timestamp=minute * SIZE_MS)
        assert driver.task.state.trim_points()["counts"] > before["counts"]


def test_a_replay_of_more_than_the_cut_needs_does_not_need_more_afterwards() -> None:
    needed = NeededRecords(StoredMeta())
    needed.open(counting().stores["counts"], in_memory=True)
    needed.start_at("counts", 4)
    replayed = Layer()
    replayed.rows[bytes(8) + b"a"] = b"1"
    needed.wrote("counts", replayed, 0)

    assert needed.first({"counts": 9}) == {"counts": 4}
