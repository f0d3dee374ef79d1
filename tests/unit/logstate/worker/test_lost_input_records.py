"""Records of an input that were deleted before they were processed: never passed without a word."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from logstate import Application, ConfigError
from logstate.contracts.errors import RestoreError
from logstate.contracts.records import TopicPartition
from logstate.testing import FakeCluster
from logstate.topology import StreamsBuilder
from tests.unit.logstate.flows import counted, passed, recounted
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, outputs, send

IN = TopicPartition("in", 0)
RESETS = ["earliest", "latest", timedelta(hours=1)]

Declare = Callable[[StreamsBuilder], object]


def kept(builder: StreamsBuilder) -> None:
    """No record reaches the store, whose changelog stays empty."""
    builder.stream("in", key=str, value=str).to("out")
    nothing = builder.stream("in2", key=str, value=str).group_by_key()
    nothing.count(store="counts")


@pytest.fixture
def cluster() -> FakeCluster:
    return cluster_of({"in": 1, "in2": 1, "out": 1}, fetch_records_max=2)


def stopped(cluster: FakeCluster, declare: Declare, **config: Any) -> WorkerRig:
    """ "ab" was processed, "cdef" came while nothing ran, and "cd" is gone; not started yet."""
    rig = WorkerRig(cluster, declare, **config).start().until_running()
    send(cluster, *"ab")
    for _ in range(3):
        rig.commit()
    rig.stop()
    send(cluster, *"cdef")
    cluster.log(IN).delete_before(4)
    return WorkerRig(cluster, declare, **config).start()


def running(cluster: FakeCluster, declare: Declare, **config: Any) -> WorkerRig:
    """ "ab" was processed; "cd" was deleted under a worker that has not fetched it."""
    rig = WorkerRig(cluster, declare, **config).start().until_running()
    send(cluster, *"ab")
    for _ in range(3):
        rig.commit()
    send(cluster, *"cdef")
    cluster.log(IN).delete_before(4)
    return rig


Situation = Callable[..., WorkerRig]
both = pytest.mark.parametrize("situation", [stopped, running], ids=["stopped", "running"])


@both
@pytest.mark.parametrize("reset", RESETS, ids=str)
@pytest.mark.parametrize("declare", [passed, kept, recounted, counted])
def test_by_default_the_application_stops_and_names_what_is_gone(
    cluster: FakeCluster, situation: Situation, declare: Declare, reset: str | timedelta
) -> None:
    rig = situation(cluster, declare, offset_reset=reset)
    with pytest.raises(RestoreError, match=r"in-0: offset 2 is committed.* 4 to 6.*on_data_loss="):
        rig.turn(20)


@both
@pytest.mark.parametrize("reset", RESETS, ids=str)
def test_going_on_processes_every_record_that_is_there_and_logs_an_error(
    cluster: FakeCluster,
    situation: Situation,
    reset: str | timedelta,
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = situation(cluster, passed, offset_reset=reset, on_data_loss="continue")
    with caplog.at_level(logging.INFO):
        for _ in range(8):
            rig.commit()
    assert [key for key, _ in outputs(cluster)] == list("abef")
    errors = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert len(errors) == 1
    assert "task 0_0: input in-0: offset 2 is committed, but the log holds 4 to 6" in errors[0]
    assert "Records 2 to 3 were not processed and are gone" in errors[0]
    assert "continues at offset 4" in errors[0]
    assert "are replayed" not in caplog.text
    assert rig.total("input_records_lost_total", topic="in") == 2
    assert cluster.committed_offset("app", "in") == 6


@both
@pytest.mark.parametrize(("declare", "last"), [(counted, "f"), (recounted, "f")])
def test_state_goes_on_without_the_records_that_are_gone(
    cluster: FakeCluster, situation: Situation, declare: Declare, last: str
) -> None:
    rig = situation(cluster, declare, on_data_loss="continue")
    for _ in range(10):
        rig.commit()
    assert sorted(outputs(cluster)) == [(key, "1") for key in "abef"]
    assert outputs(cluster)[-1][0] == last


def test_records_that_were_processed_are_not_counted_as_lost(cluster: FakeCluster) -> None:
    rig = running(cluster, passed, on_data_loss="continue")
    for _ in range(4):
        rig.commit()
    cluster.log(IN).delete_before(6)
    send(cluster, "g")
    for _ in range(6):
        rig.commit()
    assert rig.total("input_records_lost_total", topic="in") == 2
    assert outputs(cluster)[-1] == ("g", "g")


def test_a_log_that_ends_before_the_committed_offset_is_read_from_its_start(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """What is there may have been written after the loss, at offsets that were processed."""
    rig = WorkerRig(cluster, passed).start().until_running()
    send(cluster, *"abcd")
    for _ in range(3):
        rig.commit()
    rig.stop()
    cluster.log(IN).truncate(1)
    rig = WorkerRig(cluster, passed, offset_reset="latest").start()
    with pytest.raises(RestoreError, match=r"offset 4 is committed, but the log holds 0 to 1"):
        rig.turn(20)
    rig = WorkerRig(cluster, passed, offset_reset="latest", on_data_loss="continue").start()
    rig.until_running()
    rig.commit()
    assert [key for key, _ in outputs(cluster)] == list("abcda")
    assert "The log was truncated at 1 or the topic was created again" in caplog.text


def test_a_log_that_ends_before_is_not_counted_again_behind_a_repartition_topic(
    cluster: FakeCluster,
) -> None:
    rig = WorkerRig(cluster, recounted).start().until_running()
    send(cluster, *"abcd")
    for _ in range(4):
        rig.commit()
    rig.stop()
    cluster.log(IN).truncate(1)
    rig = WorkerRig(cluster, recounted, on_data_loss="continue").start()
    with pytest.raises(RestoreError, match="input in-0: offset 4 is committed, while its results"):
        rig.turn(20)


def test_another_word_is_refused() -> None:
    builder = StreamsBuilder()
    passed(builder)
    with pytest.raises(ConfigError, match="on_data_loss must be 'fail' or 'continue'; got 'skip'"):
        Application(
            builder.build(),
            application_id="app",
            bootstrap="b:1",
            state_dir="state",
            on_data_loss="skip",  # type: ignore[arg-type]
        )
