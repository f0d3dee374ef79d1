"""How current rows are: never older than the reported time, whatever arrives late."""

from __future__ import annotations

import random

import pytest

from logstate.contracts.records import TopicPartition
from logstate.task.input_ends import InputEnds, PartitionEnds

FIRST, SECOND = TopicPartition("in", 0), TopicPartition("other", 0)


class Reader:
    """A log that grows, a client whose fetches return late, and a task that lags behind."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.ends = PartitionEnds()
        #: time -> the length of the log at that time
        self.lengths: list[tuple[float, int]] = [(0.0, 0)]
        self.now = self.before = 0.0
        self.known = self.position = 0
        self.is_at_end = self.is_fetching = self.was_fetching = False

    @property
    def length(self) -> int:
        return self.lengths[-1][1]

    def step(self) -> None:
        rng, before = self.rng, self.length
        self.now += rng.choice([1.0, 200.0, 3_000.0])
        if rng.random() < 0.6:
            self.lengths.append((self.now, self.length + rng.randrange(30)))
        if rng.random() < 0.2:
            self.is_fetching = not self.is_fetching
        if self.is_fetching and self.was_fetching:  # new records may still be on their way
            self._fetched(rng.choice([before, self.length]))
        elif self.is_fetching and rng.random() < 0.5:
            self._fetched(self.length)
        self.position = min(self.known, self.position + rng.choice([0, 5, 1_000]))
        at_end = self.is_at_end and self.is_fetching and self.was_fetching
        at_end = at_end and self.position == self.known
        self.ends.check(self.before, end=self.known, position=self.position, is_at_end=at_end)
        self.before, self.was_fetching = self.now, self.is_fetching

    def _fetched(self, length: int) -> None:
        if length >= self.known:
            self.known, self.is_at_end = length, True

    def check(self) -> None:
        caught_up_ms = self.ends.caught_up_ms
        if caught_up_ms is not None:
            then = max(length for time, length in self.lengths if time <= caught_up_ms)
            assert self.position >= then, "the rows lack records from before that time"


@pytest.mark.parametrize("seed", range(50))
def test_rows_include_everything_from_before_the_time_that_is_claimed(seed: int) -> None:
    reader = Reader(random.Random(seed))
    for _ in range(200):
        reader.step()
        reader.check()
    assert reader.ends.caught_up_ms is not None


def test_the_first_report_says_nothing_about_its_time() -> None:
    """It may be from an earlier assignment of the partition."""
    ends = PartitionEnds()
    ends.check(100.0, end=5, position=5, is_at_end=False)
    assert ends.caught_up_ms is None
    ends.check(200.0, end=5, position=5, is_at_end=True)
    assert ends.caught_up_ms == 200.0


def test_rows_that_lag_are_as_old_as_the_end_that_they_have_reached() -> None:
    ends = PartitionEnds()
    for number in range(10):
        ends.check(number * 200.0, end=10 * number, position=0, is_at_end=False)
    ends.check(2_000.0, end=90, position=45, is_at_end=False)
    assert ends.caught_up_ms == 4 * 200.0


def test_a_topic_that_was_created_again_begins_again() -> None:
    ends = PartitionEnds()
    ends.check(0.0, end=100, position=50, is_at_end=False)
    ends.check(200.0, end=120, position=50, is_at_end=False)
    ends.check(400.0, end=3, position=2, is_at_end=False)
    assert ends.caught_up_ms is None
    ends.check(600.0, end=3, position=3, is_at_end=False)
    assert ends.caught_up_ms == 400.0


def test_ends_are_forgotten_one_by_one_when_there_are_too_many_and_never_claim_more() -> None:
    ends = PartitionEnds()
    for number in range(20_000):
        ends.check(200.0 * number, end=number, position=0, is_at_end=False)
    for position in range(1_000, 19_000, 1_000):
        ends.check(4_000_000.0, end=19_999, position=position, is_at_end=False)
        assert ends.caught_up_ms is not None
        assert 200.0 * (position - 300) <= ends.caught_up_ms <= 200.0 * position
    assert len(ends._ends) < 300


def test_a_task_is_as_old_as_the_oldest_of_its_inputs_and_unknown_until_all_are_known() -> None:
    task, positions = InputEnds(), {FIRST: 5, SECOND: 7}
    at_end = {FIRST: True, SECOND: True}
    assert task.check(100.0, {FIRST: 5}, positions, at_end) is None
    assert task.check(200.0, {FIRST: 5, SECOND: 7}, positions, at_end) == 200.0
    later = {FIRST: 5, SECOND: 9}
    assert task.check(300.0, later, positions, {FIRST: True, SECOND: False}) == 200.0
