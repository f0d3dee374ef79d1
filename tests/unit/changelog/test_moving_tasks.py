"""Wherever a task moves, and whatever its owners go through: its rows are those of one that stays.

Like :mod:`tests.unit.changelog.test_crash_and_replay`, with everything that concerns two instances:
standbys that are promoted and owners that become standbys, directories that come back old, logs
that are compacted and trimmed; and with commits whose end comes later than the records behind them,
and records that are rolled back. Of one store, the kind being drawn too.

Few examples; ``--hypothesis-profile=long`` tries 10,000 of each part.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples_tried import at_most
from tests.unit.changelog.moving_task import Disk, MovingTask, Replay
from tests.unit.changelog.store_kinds import RETENTION_MS, Input, KindUnderTest
from tests.unit.changelog.test_crash_and_replay import (
    ADVANCES,
    DELAYS,
    VALUES,
    choices_of,
    kind_named,
    kinds,
    numbers,
)

EVENTS = (
    *("abort", "crash", "lose", "old disk", "move", "hand over", "hand over"),
    *("follow", "follow", "follow", "apply", "apply", "drop caches", "compact", "trim", "trim"),
)
DIES = frozenset(EVENTS[:7])
RECORD_CHOICES = (("a", "aa", "b"), VALUES, ADVANCES, DELAYS, range(5), (False,) * 7 + (True,))
EVENT_CHOICES = (
    range(30),  # after which record
    EVENTS,
    (1, 2, 1_000),  # replay's batch
    (False, True),  # writes_between
    (False, False, True),  # dies
    (0, 0, 0, 1, 3),  # records that a standby lacks
    (False, True),  # the open transaction is committed
)


class Event(NamedTuple):
    """What happens after a record."""

    what: str
    replay: Replay
    lacks: int
    is_committed: bool


class Script(NamedTuple):
    """Records, of which some fail, and events after some of them."""

    inputs: list[tuple[Input, bool]]
    events: dict[int, list[Event]]
    commit_every: int
    #: how many records are processed before the end of a commit is heard of
    ends_after: int


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    length = draw(st.integers(1, 30))
    inputs, now = [], draw(st.sampled_from([0, 0, 5, 61_000]))
    for number in draw(st.lists(numbers(RECORD_CHOICES), min_size=length, max_size=length)):
        key, value, advance, delay, choice, fails = choices_of(number, RECORD_CHOICES)
        now += advance
        inputs.append((Input(key, value, max(0, now - delay), choice), fails))
    events: dict[int, list[Event]] = {}
    for number in draw(st.lists(numbers(EVENT_CHOICES), max_size=14)):
        after, what, *how, lacks, is_committed = choices_of(number, EVENT_CHOICES)
        event = Event(what, Replay(*how), lacks, is_committed)
        events.setdefault(after % length, []).append(event)
    commit_every = draw(st.sampled_from([1, 2, 3, 6]))
    return Script(inputs, events, commit_every, draw(st.integers(0, commit_every - 1)))


def run(kind: KindUnderTest, script: Script, *, logs_every_write: bool) -> None:
    steady = MovingTask(kind, logs_every_write=logs_every_write)
    moving = MovingTask(kind, logs_every_write=logs_every_write)
    clock = 0

    def process(number: int) -> None:
        one, fails = script.inputs[number]
        moving.process(one, fails=fails)
        if (number + 1) % script.commit_every == 0:
            moving.begin_commit()

    for number, (one, fails) in enumerate(script.inputs):
        process(number)
        if fails:
            steady.skip()
        else:
            clock = max(clock, one.time)
            steady.process(one)
        if (number + 1) % script.commit_every == 0:
            steady.begin_commit()
            steady.end_commit()
        if (number + 1) % script.commit_every == script.ends_after:
            moving.end_commit()
        for event in script.events.get(number, ()):
            happen(moving, event)
            if event.what in DIES:
                for again in range(moving.committed_offset, number + 1):
                    process(again)
                    moving.end_commit()
            assert moving.answers(clock) == steady.answers(clock), f"{event.what} at {number}"
            check(moving, steady)
    moving.end_commit()
    for task in (steady, moving):
        task.begin_commit()
        task.end_commit()
    assert moving.answers(clock) == steady.answers(clock)
    # A deletion that is rolled back keeps the versions before and after it apart in the log.
    if not (kind.spec.is_versioned and any(fails for _, fails in script.inputs)):
        assert moving.commits == steady.commits
    assert moving.rows() == steady.rows()
    check(moving, steady)
    steady.close()
    moving.close()


def happen(moving: MovingTask, event: Event) -> None:
    replay = event.replay
    if event.what in DIES:
        moving.end_of_transaction(is_committed=event.is_committed)
    what: dict[str, Any] = {
        "abort": lambda: moving.abort(replay._replace(dies=False)),
        "crash": lambda: moving.crash(None, replay),
        "lose": lambda: moving.crash(Disk(), replay),
        "old disk": lambda: moving.crash(moving.here.old_disk.copy(), replay),
        "move": lambda: moving.move(replay),
        "hand over": lambda: moving.hand_over(replay._replace(dies=False)),
        "follow": lambda: moving.follow(event.lacks, replay),
        "apply": moving.apply,
        "drop caches": moving.state.drop_caches,
        "compact": moving.log.compact if not moving.kind.spec.is_versioned else int,
        "trim": moving.trim,
    }
    what[event.what]()


def check(moving: MovingTask, steady: MovingTask) -> None:
    """Queries find the same, wherever all is known that is committed."""
    if len(moving.commits) != len(steady.commits):
        return
    wanted = steady.found(steady.here)
    assert moving.found(moving.here) == wanted
    followed = moving.found(moving.there)
    if followed is not None and moving.is_current(moving.there):
        assert followed == wanted


@pytest.mark.parametrize("kind", list(kinds()), ids=lambda kind: kind.name.replace(" ", "-"))
@settings(max_examples=at_most(8))
@given(script=scripts(), logs_every_write=st.booleans())
def test_a_task_that_moves_is_as_if_it_had_stayed(
    kind: KindUnderTest, script: Script, logs_every_write: bool
) -> None:
    run(kind, script, logs_every_write=logs_every_write)


# --- what the property found ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["window", "session", "versioned"])
def test_a_standby_that_had_the_task_shows_what_has_come_since(name: str) -> None:
    """Its clock was that of its own last commit, and queries looked for nothing later."""
    moving = MovingTask(kind_named(name), logs_every_write=False)
    for time in (0, 12 * RETENTION_MS, 12 * RETENTION_MS + 40):
        moving.process(Input("a", 1, time, 1))
        moving.begin_commit()
        moving.end_commit()
        if time == 0:
            moving.hand_over(Replay())
    moving.follow(0, Replay())
    assert moving.found(moving.there) == moving.found(moving.here)
    moving.close()


@pytest.mark.parametrize("name", ["window", "session", "versioned"])
@pytest.mark.parametrize("comes_late", [False, True])
def test_a_standby_that_is_opened_again_shows_what_lay_on_its_disk(
    name: str, comes_late: bool
) -> None:
    """What it reads, if anything, is older."""
    moving = MovingTask(kind_named(name), logs_every_write=False)
    times = [0, 61_000, 61_060, *([61_025] if comes_late else [])]
    for time in times:
        if time == 61_025:
            moving.move(Replay())
        moving.process(Input("a", 1, time, 1))
        moving.begin_commit()
        moving.end_commit()
        moving.apply()
    if not comes_late:
        moving.move(Replay())
    moving.follow(0, Replay())
    assert moving.found(moving.there)[-1] == moving.found(moving.here)[-1]
    moving.close()


@pytest.mark.parametrize("name", ["window", "session", "versioned"])
def test_a_standby_hides_what_its_owner_hides(name: str) -> None:
    """One that never had the task knew no clock, and showed too many rows or too few."""
    moving = MovingTask(kind_named(name), logs_every_write=False)
    for key, time in (("a", 0), ("a", 40), ("b", RETENTION_MS + 20)):
        moving.process(Input(key, 1, time, 1))
        moving.begin_commit()
        moving.end_commit()
    moving.follow(0, Replay())
    assert moving.found(moving.there) == moving.found(moving.here)
    moving.close()
