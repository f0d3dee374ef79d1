"""The fixtures: a log as it may be found, a start, and what must come of it.

Each takes a bench and asserts the restored rows, that the start does not hang (the bench has a
deadline), that a store is rebuilt where its identity fails and only there, and that the log says
why. Afterwards the application still processes: ``Bench.restore`` checks that every time.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from logstate.app.application import Application
from logstate.contracts.errors import RestoreError
from logstate.restore.restore import RestoreProgress
from tests.restore_fixtures.bench import DEADLINE, Bench
from tests.restore_fixtures.held_reads import HeldReads

ROWS = {"a": "1", "b": "2"}


def empty_changelog(bench: Bench) -> None:
    """Nothing was ever written: start and end are 0."""
    with bench.application() as app:
        app.wait_until_running(DEADLINE)
    bench.lose_disk()
    assert (bench.start(), bench.end()) == (0, 0)

    found = bench.restore()

    assert found.rows == {}
    assert found.records == 0
    assert not found.was_rebuilt


def everything_was_deleted(bench: Bench) -> None:
    """Empty with an end above 0: deletion by retention, or by hand."""
    bench.run(ROWS)
    end = bench.end()
    bench.world.delete_before(bench.changelog, end)
    bench.copy_disk("kept")
    bench.lose_disk()
    assert bench.start() == bench.end() == end > 0

    with pytest.raises(RestoreError, match=r"'latest' .*starts at offset 3, .* from offset 0 on"):
        bench.restore()

    found = bench.restore(disk="kept")
    assert found.rows == ROWS, "local rows have all of it"
    assert not found.was_rebuilt


def the_beginning_was_deleted(bench: Bench) -> None:
    """What is left would look like a state with fewer keys."""
    bench.run({"a": "1"})
    bench.run({"b": "2"})
    bench.copy_disk("kept")
    bench.lose_disk()
    bench.world.delete_before(bench.changelog, 1)

    with pytest.raises(RestoreError, match=r"starts at offset 1, .* from offset 0 on"):
        bench.restore()

    found = bench.restore(disk="kept")
    assert found.rows == ROWS
    assert not found.was_rebuilt


def compacted_holes(bench: Bench) -> None:
    """Offsets are missing in the middle and, where brokers leave it so, at the end."""
    bench.topic_config = dict(bench.world.compacting)
    bench.run({"a": "0", "b": "2"})
    for value in ("1", "2", "3"):
        bench.run({"a": value, "gone": value})
    bench.write_plain([bench.logged("gone", None)])
    bench.lose_disk()
    bench.world.compact(bench.changelog)
    offsets = [offset for offset, _, _ in bench.read_log()]
    end = bench.end()
    assert len(offsets) < end - bench.start(), "there are no holes"

    found = bench.restore()

    assert found.rows == {"a": "3", "b": "2"}
    # A broker's cleaner may take tombstones at any time.
    left = [offset for offset, _, _ in bench.read_log() if offset < end]
    assert len(left) <= found.records <= len(offsets)


def a_commit_marker_is_last(bench: Bench) -> None:
    """The end lies behind a marker, which no reader ever gets."""
    bench.run(ROWS)
    bench.lose_disk()
    last = bench.read_log()[-1][0]
    assert bench.end() == last + 2

    found = bench.restore()

    assert found.rows == ROWS
    assert found.records == 2


def the_marker_was_removed_later(bench: Bench) -> None:
    """Compaction removes markers too: holes where no record ever was."""
    bench.topic_config = dict(bench.world.compacting)
    bench.run({"a": "0"})
    bench.run(ROWS)
    bench.lose_disk()
    bench.world.drop_markers(bench.changelog)

    found = bench.restore()

    assert found.rows == ROWS


def an_aborted_transaction_is_last(bench: Bench) -> None:
    """Its records are in the log and must not come into the store."""
    bench.run(ROWS)
    bench.lose_disk()
    before = bench.end()
    producer = bench.world.foreign_producer(f"{bench.name}-aborts")
    producer.begin()
    producer.produce([bench.logged("a", "dirty"), bench.logged("dirty", "dirty")])
    producer.flush()
    producer.abort()
    producer.close()
    bench.eventually(lambda: bench.end() >= before + 3)

    found = bench.restore()

    assert found.rows == ROWS
    assert found.records == 2


def an_open_transaction_is_last(bench: Bench) -> None:
    """Of a producer that died: its records are below the end and above the last stable offset.

    They might still commit, so the restore waits until that is decided, and no longer: the
    transaction's time-out decides it.
    """
    bench.run(ROWS)
    bench.lose_disk()
    name = f"{bench.name}-hangs"
    producer = bench.world.foreign_producer(name, expires=True)
    producer.begin()
    producer.produce([bench.logged("a", "dirty"), bench.logged("dirty", "dirty")])
    producer.flush()

    def wait_and_expire(app: Application) -> None:
        # It waits for the transaction, or has waited for it already.
        bench.eventually(lambda: app.tasks().get("0_0") in ("restoring", "running"))
        bench.world.expire(name)

    found = bench.restore(meanwhile=wait_and_expire)

    producer.close()
    assert found.rows == ROWS


def an_open_transaction_commits_while_it_is_awaited(bench: Bench) -> None:
    """A commit that was under way when the owner changed: its rows belong to the store."""
    bench.run(ROWS)
    bench.lose_disk()
    producer = bench.world.foreign_producer(f"{bench.name}-commits")
    producer.begin()
    producer.produce([bench.logged("a", "late")])
    producer.flush()
    with bench.application() as app:
        bench.eventually(lambda: app.tasks() == {"0_0": "restoring"})
        producer.commit()
        app.wait_until_running(DEADLINE)
        rows = {key: row.value for key, row in app.store("latest").all()}
    producer.close()

    assert rows == {"a": "late", "b": "2"}


def the_stored_position_is_beyond_the_end(bench: Bench) -> None:
    """The directory saw more than the log has: rebuilt, and the log says so."""
    bench.run(ROWS)
    bench.shift_stored_position(by=1_000)

    found = bench.restore()

    assert found.rows == ROWS
    assert found.was_rebuilt
    assert "beyond its end" in found.said


def the_topic_was_recreated_and_refilled(bench: Bench) -> None:
    """Another incarnation of the changelog: told by its id, whatever its offsets are."""
    bench.run(ROWS)
    end = bench.end()
    bench.world.recreate(bench.changelog.topic)
    bench.write_plain([bench.logged("a", f"copy-{n}") for n in range(end + 5)])

    found = bench.restore()

    assert found.rows == {"a": f"copy-{end + 4}"}, "rows of the old incarnation are left"
    assert found.was_rebuilt
    assert "another incarnation" in found.said


def the_topic_was_recreated_empty(bench: Bench) -> None:
    """State that outputs were computed from is gone: that is never papered over."""
    bench.run(ROWS)
    bench.world.recreate(bench.changelog.topic)

    with pytest.raises(RestoreError, match="Committed state is missing"):
        bench.restore()


def the_stored_position_is_below_the_start(bench: Bench) -> None:
    """Records that this directory has not seen are gone: the one that has them can go on."""
    bench.run(ROWS, disk="old")
    seen = bench.end()
    bench.run({"a": "3", "b": "4", "c": "5"}, disk="new")
    bench.world.delete_before(bench.changelog, seen + 1)

    with pytest.raises(RestoreError, match=r"local rows .* were not changed, but cannot be used"):
        bench.restore(disk="old")

    found = bench.restore(disk="new")
    assert found.rows == {"a": "3", "b": "4", "c": "5"}
    assert not found.was_rebuilt


def everything_is_in_sync_already(bench: Bench) -> None:
    """No record to read: done when the position is, not when a record comes."""
    bench.run(ROWS)

    found = bench.restore()

    assert found.rows == ROWS
    assert found.records == 0
    assert not found.was_rebuilt


def a_tombstone_deletes_what_is_not_there(bench: Bench) -> None:
    """For a store that never had the key, in memory or on disk."""
    bench.run(ROWS)
    bench.write_plain([bench.logged("never", None), bench.logged("b", None)])

    on_disk = bench.restore()
    bench.lose_disk()
    from_nothing = bench.restore()

    assert on_disk.rows == {"a": "1"}
    assert on_disk.records == 2
    assert from_nothing.rows == {"a": "1", "alive": "yes"}


def a_crash_between_commit_and_apply(bench: Bench) -> None:
    """The transaction committed and the local rows know nothing of it."""
    bench.run(ROWS)
    with bench.application(checkpoint_interval=timedelta(hours=1)) as app:
        app.wait_until_running(DEADLINE)
        bench.process(app, {"a": "3", "c": "4"})
        bench.copy_disk("killed")

    found = bench.restore(disk="killed")

    assert found.rows == {"a": "3", "b": "2", "c": "4"}
    # `a` and `c` may have been committed one by one
    assert found.records == 2
    assert not found.was_rebuilt


# ---------------------------------------------------------------------- rebalances in the middle

_BATCHES, _BATCH = 30, 25
_BIG = {f"k{n}": str(n) for n in range(_BATCHES * _BATCH)}


class Seen:
    """A restore listener that keeps what it is told."""

    def __init__(self) -> None:
        self.progress: dict[str, list[RestoreProgress]] = {}

    def __call__(self, progress: RestoreProgress) -> None:
        self.progress.setdefault(progress.task, []).append(progress)

    def is_in_the_middle(self) -> bool:
        return len(self.progress) == 2 and all(
            0 < seen[-1].position < seen[-1].target for seen in self.progress.values()
        )


def _two_partitions_with_rows(bench: Bench) -> dict[str, str]:
    """Changelogs with several times as many records as a held reader lets through."""
    with bench.application() as app:
        app.wait_until_running(DEADLINE)
        bench.process(app, ROWS)
    rows = dict(ROWS)
    producer = bench.world.cluster.plain_producer()
    names = sorted(_BIG)
    for first in range(0, len(names), _BATCH):
        batch = names[first : first + _BATCH]
        placed = [
            bench.logged(name, _BIG[name], bench.world.cluster.partition_for(name.encode(), 2))
            for name in batch
        ]
        producer.produce(placed)
        producer.flush()
        rows.update((name, _BIG[name]) for name in batch)
    producer.close()
    bench.lose_disk()
    return rows


def _rows_of(*apps: Application) -> dict[str, str]:
    found: dict[str, str] = {}
    for app in apps:
        for key, row in app.store("latest").all():
            assert key not in found, f"{key} is on two instances"
            found[key] = row.value
    return found


def _are_running(*apps: Application) -> bool:
    stages = [stage for app in apps for stage in app.tasks().values()]
    return len(stages) == 2 and set(stages) == {"running"}


def a_rebalance_revokes_a_partition_mid_restore(bench: Bench) -> None:
    """The other instance restores it from the start; nothing is left half way or held twice."""
    bench.partitions = 2
    rows = _two_partitions_with_rows(bench)
    seen, held = Seen(), HeldReads(bench.world.cluster)
    with bench.application("first", cluster=held, listener=seen) as first:
        bench.eventually(seen.is_in_the_middle)
        with bench.application("second") as second:
            bench.eventually(lambda: len(second.tasks()) == 1 and len(first.tasks()) == 1)
            (moved,) = second.tasks()
            interrupted = seen.progress[moved][-1]
            assert interrupted.position < interrupted.target
            held.released.set()
            bench.eventually(lambda: _are_running(first, second))

            assert _rows_of(first, second) == rows


def the_partition_comes_back_mid_restore(bench: Bench) -> None:
    """Revoked and assigned again while restoring: it goes on from where it was, or from nothing."""
    bench.partitions = 2
    rows = _two_partitions_with_rows(bench)
    seen, held = Seen(), HeldReads(bench.world.cluster)
    with bench.application("first", cluster=held, listener=seen) as first:
        bench.eventually(seen.is_in_the_middle)
        with bench.application("second") as second:
            bench.eventually(lambda: len(second.tasks()) == 1 and len(first.tasks()) == 1)
            (moved,) = second.tasks()
        (kept,) = {"0_0", "0_1"} - {moved}
        still = seen.progress[kept][-1]
        assert still.position < still.target
        held.released.set()
        bench.eventually(lambda: _are_running(first))

        assert _rows_of(first) == rows
        positions = [p.position for p in seen.progress[kept]]
        assert positions == sorted(positions), "the partition that stayed went back"


CASES = [
    empty_changelog,
    everything_was_deleted,
    the_beginning_was_deleted,
    compacted_holes,
    a_commit_marker_is_last,
    the_marker_was_removed_later,
    an_aborted_transaction_is_last,
    an_open_transaction_is_last,
    an_open_transaction_commits_while_it_is_awaited,
    the_stored_position_is_beyond_the_end,
    the_topic_was_recreated_and_refilled,
    the_topic_was_recreated_empty,
    the_stored_position_is_below_the_start,
    everything_is_in_sync_already,
    a_tombstone_deletes_what_is_not_there,
    a_rebalance_revokes_a_partition_mid_restore,
    the_partition_comes_back_mid_restore,
    a_crash_between_commit_and_apply,
]
#: cases whose topics have two partitions
TWO_PARTITIONS = {
    a_rebalance_revokes_a_partition_mid_restore,
    the_partition_comes_back_mid_restore,
}
