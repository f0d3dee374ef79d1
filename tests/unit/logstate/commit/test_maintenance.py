"""What happens between commits: applying and freeing, none of which changes a result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from logstate.contracts.records import TaskId
from logstate.contracts.stores import ValueAndTimestamp
from logstate.task.owned_task import OwnedTask
from logstate.topology import Materialized, StreamsBuilder
from tests.unit.logstate.commit.keeper import CONFIG, Keeper, by_text


@pytest.fixture
def keeper() -> Keeper:
    return Keeper()


# --- applying -------------------------------------------------------------------------------------


def test_committed_rows_wait_for_the_checkpoint_interval(keeper: Keeper) -> None:
    keeper.put("a")
    keeper.after_commit()
    keeper.clock.advance(9_999)
    keeper.after_commit()
    assert keeper.stored() == 0
    keeper.clock.advance(1)
    keeper.after_commit()
    assert keeper.stored() == 1
    assert keeper.caught_up_at_ms == 1_010_000


def test_an_age_that_a_wrong_clock_told_is_told_again_as_soon_as_the_clock_is_right(
    keeper: Keeper,
) -> None:
    """An idle task writes it once in ten minutes; it was silent until the clock had caught up."""
    keeper.state.apply(80 * 31_536_000_000)
    keeper.after_commit()
    assert keeper.caught_up_at_ms == 1_000_000


def test_tasks_that_came_together_are_applied_in_turn() -> None:
    keepers = [Keeper(), Keeper(), Keeper()]
    first, *_ = keepers
    tasks = [
        OwnedTask(TaskId(0, number), k.owned.partitions, 1, k.bench.task)
        for number, k in enumerate(keepers)
    ]
    applied: list[list[int]] = []
    for _ in range(7):
        for keeper in keepers:
            keeper.put("a")
        first.maintenance.apply_if_due(tasks, first.clock.monotonic_ms())
        applied.append([n for n, k in enumerate(keepers) if k.state.unapplied_rows() == 0])
        first.clock.advance(3_400)
    assert applied == [[], [0], [1], [2], [0], [1], [2]]


def test_the_interval_begins_anew_after_each_checkpoint(keeper: Keeper) -> None:
    keeper.after_commit()
    for _ in range(2):
        keeper.clock.advance(10_000)
        keeper.put("a")
        keeper.after_commit()
        assert keeper.state.unapplied_rows() == 0
        keeper.put("b")
        keeper.after_commit()
        assert keeper.state.unapplied_rows() == 1


def test_too_many_waiting_rows_do_not_wait(keeper: Keeper) -> None:
    keeper.put("a", "b", "c", "d")
    keeper.after_commit()
    assert keeper.stored() == 0
    keeper.put("e")
    keeper.after_commit()
    assert keeper.stored() == 5


def test_too_many_waiting_bytes_do_not_wait_however_few_rows_they_are(keeper: Keeper) -> None:
    keeper.put("x" * 400)
    keeper.after_commit()
    assert keeper.stored() == 0
    keeper.put("x" * 400)  # the same row, but a restart would replay it twice
    keeper.after_commit()
    assert keeper.stored() == 0
    keeper.put("y" * 400)
    keeper.after_commit()
    assert keeper.stored() == 2
    assert keeper.state.unapplied_bytes == 0


def test_waiting_rows_are_encoded_ahead_of_the_commit_now_and_then(keeper: Keeper) -> None:
    found: Any = keeper.state.stores["counts"]
    waiting = []
    for key, later_ms in (("a", 0), ("b", 99), ("c", 1)):
        keeper.clock.advance(later_ms)
        found.put(key, ValueAndTimestamp(1, 0))
        keeper.maintenance.encode_ahead([keeper.owned])
        waiting.append(len(found._behind.row_keys))
    assert waiting == [0, 1, 0]
    assert len(keeper.state.freeze().writes["counts"]) == 3


def test_rows_without_another_durable_copy_never_wait() -> None:
    def declare(builder: StreamsBuilder) -> None:
        grouped = builder.stream("in", key=str, value=str).group_by_key()
        grouped.count(store=Materialized("counts", logged=False))

    keeper = Keeper(declare)
    keeper.put("a")
    keeper.after_commit()
    assert keeper.stored() == 1


def test_without_rows_nothing_is_written(keeper: Keeper) -> None:
    before = keeper.caught_up_at_ms
    keeper.clock.advance(10_000)
    keeper.after_commit()
    assert keeper.caught_up_at_ms == before


def test_a_commit_after_long_says_that_the_rows_are_still_at_the_end(keeper: Keeper) -> None:
    """Else the rows of an idle task would look as if they had missed deletions."""
    keeper.clock.advance(600_000)
    keeper.after_commit()
    assert keeper.caught_up_at_ms == keeper.clock.wall_clock_ms()


# --- memory ---------------------------------------------------------------------------------------


def together(keepers: list[Keeper]) -> Callable[[], None]:
    """Runs the maintenance of a worker that has the tasks of all of them."""
    tasks = [
        OwnedTask(TaskId(0, number), k.owned.partitions, 1, k.bench.task)
        for number, k in enumerate(keepers)
    ]
    first = keepers[0]
    return lambda: first.maintenance.apply_if_due(tasks, first.clock.monotonic_ms())


def test_clean_rows_within_the_bound_are_kept(keeper: Keeper) -> None:
    keeper.put(*map(str, range(20)))
    keeper.after_commit()
    assert keeper.state.cached_rows() == 20


def test_clean_rows_beyond_the_bound_are_evicted_the_oldest_first(keeper: Keeper) -> None:
    for number in range(200):
        keeper.put(str(number))
        keeper.after_commit()
        assert keeper.state.cached_bytes() <= CONFIG.cache_bytes
    held = list(keeper.state.stores["counts"]._behind.rows)  # type: ignore[union-attr]
    assert 20 < len(held) < 100
    assert held == [str(number) for number in range(200 - len(held), 200)]
    assert keeper.stored() + keeper.state.unapplied_rows() == 200


def test_evicted_rows_are_read_from_the_store_again(keeper: Keeper) -> None:
    keeper.put(*map(str, range(200)))
    keeper.after_commit()
    found: Any = keeper.state.stores["counts"]
    assert keeper.state.cached_rows() < 100
    assert [found.get(str(number)).value for number in range(200)] == [1] * 200


def test_all_tasks_of_a_worker_share_one_bound_for_clean_rows() -> None:
    keepers = [Keeper() for _ in range(10)]
    after_commit = together(keepers)
    for number in range(300):
        keepers[number % 10].put(str(number))
        after_commit()
        assert sum(k.state.cached_bytes() for k in keepers) <= CONFIG.cache_bytes
    assert sum(bool(k.state.cached_rows()) for k in keepers) >= 5


@pytest.mark.parametrize("tasks", [1, 3, 50])
def test_the_bound_holds_for_few_large_rows_and_for_rows_that_become_larger(tasks: int) -> None:
    keepers = [Keeper(by_text) for _ in range(tasks)]
    after_commit = together(keepers)
    for number in range(200):
        found: Any = keepers[number % tasks].state.stores["texts"]
        found.put(str(number), ValueAndTimestamp("x" * 2 ** (number // 20), 0))
        keepers[number % tasks].state.committed(keepers[number % tasks].state.freeze(), {})
        after_commit()
        assert sum(k.state.cached_bytes() for k in keepers) <= CONFIG.cache_bytes
    assert sum(k.stored() + k.state.unapplied_rows() for k in keepers) == 200


def test_without_a_cache_no_clean_row_is_kept() -> None:
    keeper = Keeper(config=replace(CONFIG, cache_bytes=0))
    keeper.put(*map(str, range(20)))
    keeper.after_commit()
    assert keeper.state.cached_rows() == 0


def test_pending_rows_survive_an_eviction() -> None:
    keeper = Keeper(config=replace(CONFIG, cache_bytes=0))
    found: Any = keeper.state.stores["counts"]
    found.put("a", ValueAndTimestamp(7, 0))
    keeper.after_commit()
    assert found.get("a").value == 7
    assert len(keeper.state.freeze().writes["counts"]) == 1


def test_waiting_rows_are_bounded_over_all_tasks() -> None:
    keepers = [Keeper() for _ in range(10)]
    after_commit = together(keepers)
    for number in range(100):
        keepers[number % 10].put(str(number))
        after_commit()
        assert sum(k.state.unapplied_rows() for k in keepers) < CONFIG.waiting_rows_max


def test_waiting_bytes_are_bounded_over_all_tasks() -> None:
    keepers = [Keeper() for _ in range(10)]
    after_commit = together(keepers)
    for number in range(100):
        keepers[number % 10].put(str(number) + "x" * 200)
        after_commit()
        assert sum(k.state.unapplied_bytes for k in keepers) < CONFIG.checkpoint_bytes
