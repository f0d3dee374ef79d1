"""Times that are longer than anybody waits are waited for; what is no time is named."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate import (
    Application,
    ConfigError,
    FailedRecord,
    StreamsBuilder,
    TopologyError,
    TopologyTestDriver,
    retry,
)
from logstate.changelog.cuts.named_cuts import create_cut
from logstate.cli.stores.cut import duration, seconds
from logstate.contracts.clock import wait_s
from logstate.local_broker.broker import LocalBroker
from logstate.metrics.instruments import Metrics
from logstate.metrics.own_metrics import OwnMetrics
from logstate.testing import FakeCluster, InputTopic, MockProcessorContext
from logstate.topology import Topology
from tests.patience import until

MAX = timedelta.max


def copied() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", value=str).to("out")
    return builder.build()


def test_a_wait_is_a_hundred_years_at_most() -> None:
    assert wait_s(MAX) == wait_s(timedelta(days=400 * 365)) == 3_153_600_000
    assert wait_s(timedelta(milliseconds=1)) == 0.001


def test_an_application_starts_and_stops_with_all_the_time_there_is(tmp_path: Path) -> None:
    cluster = FakeCluster({"in": 1, "out": 1})
    cluster.produce("in", b"a", b"x", timestamp=1)
    app = Application(
        copied(),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        offset_reset=MAX,  # from long ago, so from the beginning
        commit_interval=timedelta(milliseconds=5),
        cluster=cluster,
    )
    app.start(timeout=MAX)
    app.wait_until_running(timeout=MAX)
    until(lambda: bool(cluster.records("out")))
    app.close(timeout=MAX)


def test_a_retry_waits_a_day_at_most_however_often() -> None:
    failed: Any = type("Failed", (), {"attempt": 5_000})()
    waits: Callable[[FailedRecord], Any] = retry(10_000, backoff=timedelta(seconds=1))
    assert timedelta(hours=12) < waits(failed).delay <= timedelta(days=1)
    assert retry(10_000, backoff=timedelta(days=9))(failed).delay == timedelta(days=9)
    assert retry(10_000, backoff=timedelta(0))(failed).delay == timedelta(0)


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, 1e300])
def test_a_time_out_of_the_command_line_is_a_number_of_seconds(number: float) -> None:
    with pytest.raises(ConfigError, match="write a number of seconds"):
        seconds(number)


def test_a_cut_is_kept_for_a_hundred_years_or_for_good() -> None:
    with pytest.raises(ConfigError, match="leave it out to keep the cut"):
        duration("99999999999d")
    with pytest.raises(ConfigError, match=r"keep of a named cut.*Leave it out"):
        create_cut("127.0.0.1:1", "app", "eve", keep=MAX)


@pytest.mark.parametrize("timeout_s", [math.nan, -1, True, "5", None, timedelta(1)])
def test_a_local_broker_is_given_seconds(timeout_s: Any) -> None:
    with pytest.raises(ConfigError, match="timeout_s must be a number of seconds"):
        LocalBroker.start(timeout_s=timeout_s)


@pytest.mark.parametrize("buckets", [(math.nan,), (1, math.nan), (math.nan, 1)])
def test_the_buckets_of_a_histogram_are_numbers(buckets: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="give increasing upper bounds"):
        OwnMetrics(Metrics(), "0_0", "tax").histogram("sizes", "Of orders.", buckets=buckets)


@pytest.mark.parametrize("by", [1.5, "5", None, True])
def test_a_test_moves_clocks_by_times_only(by: Any) -> None:
    with TopologyTestDriver(copied()) as driver:
        with pytest.raises(TypeError, match="the wall clock moves by a timedelta"):
            driver.advance_wall_clock(by)
        topic: InputTopic[str, str] = driver.input_topic("in")
        with pytest.raises(TypeError, match="input topic 'in' moves by a timedelta"):
            topic.advance_time(by)
        with pytest.raises(ValueError, match="the wall clock cannot go back"):
            driver.advance_wall_clock(timedelta(microseconds=-1))


@pytest.mark.parametrize("interval", [timedelta(0), timedelta(seconds=-1), 5, None])
def test_a_schedule_that_the_engine_refuses_is_refused_by_the_mock(interval: Any) -> None:
    with pytest.raises(TopologyError, match="interval"):
        MockProcessorContext().schedule(interval, "wall_clock", print)
