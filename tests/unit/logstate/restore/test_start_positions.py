"""Where a task begins to read: committed offsets, reset policies, and what is refused."""

from __future__ import annotations

from datetime import timedelta

import pytest

from logstate.changelog.cut import Cut, OffsetMetadata
from logstate.contracts.clients import Committed
from logstate.contracts.errors import RestoreError
from logstate.contracts.records import TopicPartition
from logstate.contracts.worker_config import OnDataLoss
from logstate.restore.missing_records import LogRange
from logstate.restore.restore_plan import check_topic_ids, start_position, was_read

IN = TopicPartition("in", 2)
LOG = LogRange(10, 50)
NOTHING = Committed(None, "")
POLICIES: list[str | timedelta | None] = [
    "earliest",
    "latest",
    "none",
    timedelta(hours=1),
    None,
]


def start(
    committed: Committed,
    reset: str | timedelta | None = "earliest",
    *,
    at: int | None = None,
    has_state: bool = False,
    on_data_loss: OnDataLoss = "fail",
) -> int:
    return start_position(
        IN,
        committed,
        LOG,
        reset=reset,
        offset_at_reset=at,
        has_state=has_state,
        on_data_loss=on_data_loss,
    )


@pytest.mark.parametrize("has_state", [True, False])
@pytest.mark.parametrize("reset", POLICIES, ids=str)
@pytest.mark.parametrize("offset", [10, 37, 50])
def test_a_committed_offset_within_the_log_wins_over_every_policy(
    offset: int, reset: str | timedelta | None, has_state: bool
) -> None:
    assert start(Committed(offset, ""), reset, has_state=has_state) == offset


@pytest.mark.parametrize(
    ("reset", "position"),
    [("earliest", 10), (None, 10), ("latest", 50), (timedelta(hours=1), 33)],
    ids=str,
)
def test_without_state_and_without_an_offset_the_policy_of_the_source_decides(
    reset: str | timedelta | None, position: int
) -> None:
    assert start(NOTHING, reset, at=33) == position


RESETS = [policy for policy in POLICIES if policy != "none"]


@pytest.mark.parametrize("offset", [9, 51])
@pytest.mark.parametrize("reset", RESETS, ids=str)
def test_an_offset_outside_the_log_stops_the_application_whatever_the_policy(
    reset: str | timedelta | None, offset: int
) -> None:
    with pytest.raises(RestoreError, match=rf"offset {offset} is committed.*on_data_loss='conti"):
        start(Committed(offset, ""), reset, at=33)


@pytest.mark.parametrize("offset", [9, 51])
@pytest.mark.parametrize("reset", RESETS, ids=str)
def test_going_on_after_a_loss_skips_no_record_that_is_there_whatever_the_policy(
    reset: str | timedelta | None, offset: int
) -> None:
    assert start(Committed(offset, ""), reset, at=33, on_data_loss="continue") == 10


def test_state_goes_on_after_a_loss_but_is_not_counted_again() -> None:
    assert start(Committed(9, ""), has_state=True, on_data_loss="continue") == 10
    with pytest.raises(RestoreError, match="hold state"):
        start(Committed(51, ""), has_state=True, on_data_loss="continue")


@pytest.mark.parametrize("offset", [9, 51])
def test_the_policy_none_goes_on_after_no_loss(offset: int) -> None:
    with pytest.raises(RestoreError, match="offset_reset='none'"):
        start(Committed(offset, ""), "none", on_data_loss="continue")


def test_a_time_that_no_record_has_reached_is_the_end() -> None:
    assert start(NOTHING, timedelta(hours=1), at=None) == 50


def test_the_offset_at_a_time_is_only_for_durations() -> None:
    assert start(NOTHING, "earliest", at=33) == 10


@pytest.mark.parametrize("reset", POLICIES, ids=str)
def test_state_without_a_committed_offset_is_refused_whatever_the_policy(
    reset: str | timedelta | None,
) -> None:
    with pytest.raises(
        RestoreError, match=r"input in-2: nothing is committed.*hold state.*logstate reset"
    ):
        start(NOTHING, reset, has_state=True)


@pytest.mark.parametrize("offset", [9, 51])
@pytest.mark.parametrize("reset", POLICIES, ids=str)
def test_state_with_an_offset_outside_the_log_is_refused_whatever_the_policy(
    reset: str | timedelta | None, offset: int
) -> None:
    with pytest.raises(
        RestoreError, match=f"offset {offset} is committed, but the log holds 10 to 50"
    ):
        start(Committed(offset, ""), reset, has_state=True)


def test_the_policy_none_refuses_to_begin_anywhere() -> None:
    with pytest.raises(RestoreError, match=r"nothing is committed.*offset_reset='none'"):
        start(NOTHING, "none")
    with pytest.raises(RestoreError, match=r"offset 9 is committed.*offset_reset='none'"):
        start(Committed(9, ""), "none")


def metadata(topic_id: str) -> OffsetMetadata:
    return OffsetMetadata(cut=Cut(7, topic_ids={"in": topic_id}))


def test_the_topic_that_the_cut_was_written_for_is_fine() -> None:
    check_topic_ids(metadata("id-1"), {"in": "id-1", "other": "id-2"})


def test_a_topic_that_was_deleted_and_created_again_is_refused() -> None:
    with pytest.raises(
        RestoreError,
        match=r"topic 'in' was deleted and created again \(topic id id-1, now id-2\).*reset",
    ):
        check_topic_ids(metadata("id-1"), {"in": "id-2"})


def test_topics_whose_ids_are_not_known_are_not_judged() -> None:
    check_topic_ids(metadata("id-1"), {})
    check_topic_ids(OffsetMetadata(), {"in": "id-2"})


def test_a_topic_that_the_last_cut_did_not_name_is_new_and_has_no_state() -> None:
    cuts = [metadata("id-1"), OffsetMetadata()]
    assert was_read("in", NOTHING, cuts)
    assert not was_read("added", NOTHING, cuts)


def test_where_no_cut_tells_a_topic_counts_as_read() -> None:
    assert was_read("in", NOTHING, [])
    assert was_read("in", NOTHING, [OffsetMetadata(), OffsetMetadata(cut=Cut(7))])


def test_a_topic_that_the_jvm_committed_nothing_for_beside_others_was_never_read() -> None:
    assert not was_read("in", NOTHING, [OffsetMetadata(), OffsetMetadata(5)])


def test_a_topic_with_an_offset_was_read_whoever_committed_it() -> None:
    assert was_read("in", Committed(9, ""), [OffsetMetadata(5)])
    assert was_read("added", Committed(9, ""), [metadata("id-1")])
