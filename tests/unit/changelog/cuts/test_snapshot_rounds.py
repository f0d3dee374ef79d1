"""The rounds of a snapshot: in which order tasks cut, and what makes an attempt void."""

from __future__ import annotations

import pytest

from logstate.changelog.cuts.snapshot_rounds import Attempt, VoidSnapshotError, levels_of
from logstate.contracts.errors import ConfigError
from logstate.contracts.records import TopicPartition
from logstate.contracts.snapshots import (
    Present,
    SnapshotNote,
    SnapshotRequest,
    SubShape,
    decode_message,
    encode_message,
)

#: one task writes a repartition topic of one partition, another one reads it
SHAPE = {0: SubShape(1, {}, {"between": 1}), 1: SubShape(1, {"between": 1}, {})}
INPUT, BETWEEN = TopicPartition("in", 0), TopicPartition("between", 0)


def attempt(*notes: SnapshotNote) -> Attempt:
    one = Attempt("a")
    one.receive_answer(Present("a", 0, ("0_0", "1_0"), SHAPE))
    for note in notes:
        one.receive_answer(note)
    return one


def upstream(offset: int) -> SnapshotNote:
    return SnapshotNote("a", "0_0", {"in": (offset, "cut")})


def marked(end: int) -> Attempt:
    """The writer has cut, and ends are known."""
    one = attempt(upstream(7))
    assert one.finish_level([0]) == [BETWEEN]
    assert one.check_ends({BETWEEN: end}, {BETWEEN: end}, {INPUT: (7, "cut")})
    return one


def test_who_reads_repartition_topics_cuts_behind_all_who_write_them() -> None:
    shape = {
        0: SubShape(1, {}, {"a": 1}),
        1: SubShape(1, {"a": 1}, {"a-and-c": 1}),
        2: SubShape(1, {}, {"a-and-c": 1}),
        3: SubShape(1, {"a-and-c": 1}, {}),
        4: SubShape(1),
    }

    assert levels_of(shape) == [[0, 2, 4], [1], [3]]


def test_a_circle_is_refused_with_its_topics() -> None:
    shape = {
        0: SubShape(1, {"answers": 1}, {"questions": 1}),
        1: SubShape(1, {"questions": 1}, {"answers": 1}),
    }

    with pytest.raises(ConfigError, match=r"\['answers', 'questions'\] form a cycle"):
        levels_of(shape)


def test_tasks_are_missing_until_a_worker_has_said_that_it_has_this_very_order() -> None:
    one = attempt()

    assert one.absent([0, 1], 0) == []
    assert one.absent([1], 1) == ["1_0"]
    one.receive_answer(Present("another", 1, ("1_0",), SHAPE))
    assert one.absent([1], 1) == ["1_0"]
    one.receive_answer(Present("a", 1, ("1_0",), SHAPE))
    assert one.absent([1], 1) == []


def test_who_writes_stands_still_until_the_level_behind_knows_its_marks() -> None:
    one = attempt(upstream(7))
    assert one.order(1, [0], releases=True).holding == (0,)
    one.finish_level([0])
    one.check_ends({BETWEEN: 5}, {BETWEEN: 5}, {INPUT: (7, "cut")})

    before, behind = one.order(2, [1], releases=False), one.order(3, [1], releases=True)

    assert before.marks == behind.marks == {1: {"between": {0: 5}}}
    assert (before.holding, behind.holding) == ((0,), ())


def test_ends_are_no_marks_while_a_transaction_below_them_is_undecided() -> None:
    one = attempt(upstream(7))
    one.finish_level([0])

    assert not one.check_ends({BETWEEN: 5}, {BETWEEN: 4}, {INPUT: (7, "cut")})
    assert one.targets == {}


@pytest.mark.parametrize("committed", [(8, "cut"), (7, "another cut")])
def test_ends_are_void_once_the_writer_has_committed_again(committed: tuple[int, str]) -> None:
    one = attempt(upstream(7))
    one.finish_level([0])

    with pytest.raises(VoidSnapshotError, match="task 0_0 continued"):
        one.check_ends({BETWEEN: 5}, {BETWEEN: 5}, {INPUT: committed})


@pytest.mark.parametrize("offset", [4, 6])
def test_a_cut_beside_its_marks_is_void(offset: int) -> None:
    one = marked(end=5)
    one.receive_answer(SnapshotNote("a", "1_0", {"between": (offset, "")}))

    with pytest.raises(VoidSnapshotError, match=f"task 1_0 cut at between-0 {offset}, not at 5"):
        one.finish_level([1])


def test_a_note_that_comes_behind_the_end_of_its_level_changes_nothing() -> None:
    one = marked(end=5)
    one.receive_answer(upstream(9))

    assert one.notes["0_0"] == upstream(7)


def test_a_message_of_another_version_is_none() -> None:
    order = SnapshotRequest("a", 3, {1: {"between": {0: 5}}}, (0,))

    assert decode_message(encode_message(order)) == order
    assert decode_message(b'{"type": "order", "id": 7}') is None
    assert decode_message(b'{"type": "order\xff"}') is None
