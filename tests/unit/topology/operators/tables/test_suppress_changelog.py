"""The changelog of a suppress buffer: its settings, and what is lost without one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from logstate.app.application import Application
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    StreamsBuilder,
    Suppressed,
    Topology,
    TumblingWindows,
    until_time_limit,
    until_window_closes,
)
from tests.patience import PATIENCE_S
from tests.unhurried import unhurried

TEN = timedelta(milliseconds=10)
CONDITIONS: dict[str, Callable[..., Suppressed]] = {
    "window closes": until_window_closes,
    "time limit": partial(until_time_limit, TEN),
}


def held(condition: Suppressed) -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("in", key=str, value=str)
    counts = clicks.group_by_key().windowed_by(TumblingWindows(size=TEN)).count(store="n")
    final = counts.suppress(condition, name="held").to_stream(lambda window, n: window.key, key=str)
    final.to("out", value=int)
    clicks.to("seen")
    return builder.build()


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS)
def test_a_buffers_changelog_has_the_settings_that_it_is_given(
    condition: Callable[..., Suppressed], tmp_path: Path
) -> None:
    cluster = unhurried({"in": 1, "out": 1, "seen": 1})
    cluster.produce("in", b"a", b"x", timestamp=1)
    settings = {"segment.bytes": "1048576", "compression.type": "zstd"}
    with Application(
        held(condition(changelog_config=settings)),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        cluster=cluster,
    ):
        cluster.wait_for_records("seen", 1, PATIENCE_S)
    topics = ["app-held-store-changelog", "app-n-changelog"]
    of_buffer, of_counts = (cluster.admin().topic_configs(topics)[topic] for topic in topics)
    assert of_buffer | settings == of_buffer
    assert of_buffer["cleanup.policy"] == "compact"
    assert "compression.type" not in of_counts


@pytest.mark.parametrize(("logged", "after"), [(True, [("a", 2)]), (False, [])])
@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS)
def test_what_waits_comes_back_from_the_changelog_alone(
    condition: Callable[..., Suppressed], logged: bool, after: list[Any]
) -> None:
    with TopologyTestDriver(held(condition(logged=logged))) as driver:
        driver.pipe_all("in", [("a", "x", 0), ("a", "y", 1)])
        assert ("app-held-store-changelog" in driver.changelogs) is logged
        driver.crash(loses_disk=True)
        driver.pipe("in", "b", "x", timestamp=10)
        assert driver.read("out", value=int) == after
