"""Whatever dies when: after the replay every store is as if nothing had happened.

Two states get the same records and commit at the same ones. One of them never dies; the other is
aborted and killed, with and without its disk, also while it replays, and processes again what was
not committed. Rows, answers, and what is logged from then on must be equal.

Few examples; ``--hypothesis-profile=long`` tries 10,000 of each kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples_tried import at_most
from tests.unit.changelog.lives import Lives
from tests.unit.changelog.store_kinds import KEYS, KINDS, RETENTION_MS, Input, KindUnderTest


def kinds() -> Iterator[KindUnderTest]:
    """All, and those in segments once more whose retention ends where a segment does."""
    yield from KINDS
    for kind in KINDS:
        if kind.spec.segment_interval_ms is not None:
            quarters = replace(kind.spec, segment_interval_ms=RETENTION_MS // 4)
            yield replace(kind, name=f"{kind.name} of quarters", spec=quarters)


class Death(NamedTuple):
    """What happens after a record, and to whom."""

    is_abort: bool
    loses_disk: bool
    replay_batch: int
    writes_between: bool
    dies_half_way: bool


class Script(NamedTuple):
    """Records, deaths after some of them, and how often there are commits and applies."""

    inputs: list[Input]
    deaths: dict[int, Death]
    commit_every: int
    apply_every: int


# Time goes on a little, not at all, or by many retentions; some records are late.
ADVANCES = (0, 0, 1, 3, 10, 10, 40, RETENTION_MS + 1, 12 * RETENTION_MS)
DELAYS = (0, 0, 0, 5, 25, 60, RETENTION_MS - 1, RETENTION_MS, 3 * RETENTION_MS)
VALUES = (None, None, None, *range(4))
RECORD_CHOICES = (KEYS, VALUES, ADVANCES, DELAYS, range(5))
DEATH_CHOICES = (
    range(30),  # after which record
    (False, False, False, True),  # is_abort
    (False, False, False, True),  # loses_disk
    (1, 2, 1_000),  # replay_batch
    (False, True),  # writes_between
    (False, False, True),  # dies_half_way
)


def choices_of(number: int, choices: tuple[Sequence[Any], ...]) -> list[Any]:
    """One of each, told by one number: drawing them singly takes longer than the test."""
    chosen = []
    for options in choices:
        number, at = divmod(number, len(options))
        chosen.append(options[at])
    return chosen


def numbers(choices: tuple[Sequence[Any], ...]) -> st.SearchStrategy[int]:
    return st.integers(0, prod(map(len, choices)) - 1)


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    length = draw(st.integers(1, 30))  # left to itself, the average would be six
    inputs, now = [], draw(st.sampled_from([0, 0, 5, 61_000]))
    for number in draw(st.lists(numbers(RECORD_CHOICES), min_size=length, max_size=length)):
        key, value, advance, delay, choice = choices_of(number, RECORD_CHOICES)
        now += advance
        inputs.append(Input(key, value, max(0, now - delay), choice))
    deaths = {}
    for number in draw(st.lists(numbers(DEATH_CHOICES), max_size=8)):
        after, *how = choices_of(number, DEATH_CHOICES)
        deaths[after] = Death(*how)
    commit_every = draw(st.sampled_from([1, 1, 2, 3, 6]))
    return Script(inputs, deaths, commit_every, draw(st.sampled_from([1, 2, 3, 5])))


@pytest.mark.parametrize("logs_every_write", [False, True], ids=["per-commit", "per-update"])
@pytest.mark.parametrize("kind", list(kinds()), ids=lambda kind: kind.name.replace(" ", "-"))
@settings(max_examples=at_most(25))
@given(script=scripts())
def test_a_store_after_any_deaths_is_as_if_there_had_been_none(
    kind: KindUnderTest, logs_every_write: bool, script: Script
) -> None:
    steady = Lives(kind, logs_every_write=logs_every_write)
    mortal = Lives(kind, logs_every_write=logs_every_write)
    committed = commits = clock = 0
    for number, one in enumerate(script.inputs):
        clock = max(clock, one.time)
        steady.process(one)
        mortal.process(one)
        if (number + 1) % script.commit_every == 0:
            steady.commit()
            mortal.commit()
            committed, commits = number + 1, commits + 1
            if commits % script.apply_every == 0:
                mortal.apply()
        death = script.deaths.get(number)
        if death is not None:
            die(mortal, death)
            for again in script.inputs[committed : number + 1]:
                mortal.process(again)
            assert mortal.answers(clock) == steady.answers(clock), f"after the death at {number}"
    steady.commit()
    mortal.commit()
    assert mortal.answers(clock) == steady.answers(clock)
    assert mortal.commits == steady.commits
    assert mortal.rows() == steady.rows()
    steady.close()
    mortal.close()


def die(mortal: Lives, death: Death) -> None:
    if death.is_abort:
        mortal.abort()
        return
    mortal.crash(
        loses_disk=death.loses_disk,
        replay_batch=death.replay_batch,
        writes_between=death.writes_between,
        dies_half_way=death.dies_half_way,
    )


# --- what the property found ----------------------------------------------------------------------

CRASH = Death(False, loses_disk=False, replay_batch=10, writes_between=False, dies_half_way=False)


def kind_named(name: str) -> KindUnderTest:
    return next(kind for kind in KINDS if kind.name == name)


def test_a_sequence_number_whose_row_came_and_went_in_one_commit_is_not_given_again() -> None:
    lives = [Lives(kind_named("join buffer"), logs_every_write=False) for _ in range(2)]
    for life in lives:
        for one in (Input("a", 1, 200, 1), Input("a", 1, 175, 1)):  # the second leaves at once
            life.process(one)
            life.commit()
    die(lives[1], CRASH)
    for life in lives:
        life.process(Input("a", 1, 200, 1))
        life.commit()
    assert lives[0].commits[-1][0][0][-4:] == (3).to_bytes(4, "big")
    assert lives[1].commits == lives[0].commits


def test_a_replay_without_records_of_a_window_expires_it_all_the_same() -> None:
    lives = [
        Lives(kind_named("timestamped window of final results"), logs_every_write=False)
        for _ in range(2)
    ]
    for life in lives:
        life.process(Input("aa", 1, 0, 0))
        life.commit()
        life.apply()
        life.process(Input("a", None, 12 * RETENTION_MS, 0))
        life.commit()
    die(lives[1], CRASH)
    assert lives[1].answers(12 * RETENTION_MS) == lives[0].answers(12 * RETENTION_MS)
    assert lives[1].rows() == lives[0].rows()


def test_a_window_that_was_deleted_before_it_expired_holds_no_log_after_a_crash() -> None:
    lives = [Lives(kind_named("window"), logs_every_write=False) for _ in range(2)]
    for life in lives:
        for one in (Input("a", 1, 0, 1), Input("a", None, 0, 1)):
            life.process(one)
            life.commit()
        life.apply()
        life.process(Input("b", 1, 12 * RETENTION_MS, 1))
        life.commit()
    die(lives[1], CRASH)
    assert [life.state.freeze().first_needed["store"] for life in lives] == [2, 2]


@pytest.mark.parametrize("keys", ["a b a", "a b c a", "a b a c"])
def test_a_restored_lru_store_has_the_order_of_the_last_puts(keys: str) -> None:
    """A row keeps the place of its first write in a commit, but not here."""
    lives = [Lives(kind_named("LRU"), logs_every_write=False) for _ in range(2)]
    for life in lives:
        for key in keys.split():
            life.process(Input(key, 1, 0, 0))
        life.commit()
    die(lives[1], CRASH)
    for life in lives:
        life.process(Input("d", 1, 0, 0))
        life.commit()
    assert lives[1].answers(0) == lives[0].answers(0)
    assert lives[1].rows() == lives[0].rows()


def test_an_lru_store_keeps_what_the_log_only_seems_to_exceed() -> None:
    """In the middle of a commit's records there are more than it may hold."""
    lives = [Lives(kind_named("LRU"), logs_every_write=False) for _ in range(2)]
    for life in lives:
        for key, value in (("x", 1), ("y", 1), ("y", None), ("c", 1), ("y", None)):
            life.process(Input(key, value, 0, 0))
            if key == "y" and value:
                life.commit()
        life.commit()
    die(lives[1], CRASH)
    assert lives[1].answers(0) == lives[0].answers(0) == [("c", 1), ("x", 1)]
