"""Writers of one view: each publishes what follows what it began with, or nothing. No Spark."""

from __future__ import annotations

import fcntl
import json
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from logstate.changelog.spark import BucketedView, ParquetView
from logstate.changelog.spark.batch_sequence import check_follows
from logstate.changelog.spark.bucketed_view import BucketedState
from logstate.changelog.spark.current_file import CurrentFile
from logstate.changelog.spark.views import ViewState
from logstate.contracts.errors import RestoreError, StoreAccessError
from tests.patience import PATIENCE_S

STATE = BucketedState(7, 7, {0: 100}, (5, 6), (6, 7), "{}", notes_every_batch=True)


class Compacting(BucketedView):
    """Rewrites no file; ``meanwhile`` is what another writer does while it is at it."""

    def meanwhile(self) -> None:
        raise NotImplementedError

    def _rewrite(self, spark: Any, state: BucketedState, buckets: Any) -> BucketedState:
        self.meanwhile()
        return replace(state, bases=(state.version,) * 2, changes=())


@pytest.fixture
def view(tmp_path: Path) -> Compacting:
    view = Compacting(tmp_path, buckets=2)
    CurrentFile(tmp_path).publish(asdict(STATE))
    assert view.state() == STATE
    return view


def test_compact_publishes_nothing_where_a_batch_came_meanwhile(
    view: Compacting, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = replace(STATE.next(), batch_id=8, positions={0: 200}, changes=(6, 7, 8))
    monkeypatch.setattr(view, "meanwhile", lambda: CurrentFile(view.path).publish(asdict(batch)))

    with pytest.raises(StoreAccessError) as caught:
        view.compact(None)  # type: ignore[arg-type]

    assert view.state() == batch
    said = str(caught.value)
    assert "was at version 7 (batch 7) when this writer began and is at version 8 (batch 8)" in said
    assert "compact() has to be run again" in said


def test_writers_of_one_machine_take_turns(
    view: Compacting, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end, turns = threading.Event(), threading.Event(), []

    def other() -> None:
        with CurrentFile(view.path).locked():
            turns.append("another writer")

    def meanwhile() -> None:
        begun.set()
        assert may_end.wait(PATIENCE_S)
        turns.append("compact")

    monkeypatch.setattr(view, "meanwhile", meanwhile)
    compacting = threading.Thread(target=view.compact, args=(None,))
    compacting.start()
    assert begun.wait(PATIENCE_S)
    with (view.path / "LOCK").open() as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    waiting = threading.Thread(target=other)
    waiting.start()
    may_end.set()
    compacting.join()
    waiting.join()

    assert turns == ["compact", "another writer"]


def test_two_writers_of_one_version_have_directories_of_their_own() -> None:
    view, one, other = BucketedView("/data/spend", buckets=2), STATE.next(), STATE.next()

    assert one.version == other.version == 8
    assert view._base_folder(8, one) != view._base_folder(8, other)
    assert view._changes_folder(8, one) != view._changes_folder(8, other)


def test_the_directories_of_an_earlier_version_of_the_library_are_found() -> None:
    view = BucketedView("/data/spend", buckets=2)

    assert view._base_folder(7, STATE) == Path("/data/spend/base-00000007")
    assert ViewState(4, 4).kept(3) == tuple(f"version-{n:08d}" for n in (2, 3, 4))
    assert ViewState(1, 1).kept(3) == ("version-00000000", "version-00000001")


def test_what_a_failed_writer_wrote_is_removed(tmp_path: Path) -> None:
    draft = tmp_path / "version-00000001-a"
    draft.mkdir()

    with pytest.raises(ZeroDivisionError), CurrentFile(tmp_path).draft(draft):
        _ = 1 / 0

    assert not draft.exists()


def test_what_is_published_is_on_the_disk_before_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "base-00000000"
    (directory / "_bucket=0").mkdir(parents=True)
    (directory / "_bucket=0" / "part.parquet").write_bytes(b"rows")
    steps = seen_by_the_disk(monkeypatch)
    current = CurrentFile(tmp_path)

    current.sync(directory)
    current.publish(asdict(STATE))

    files = [directory / "_bucket=0" / "part.parquet", directory / "_bucket=0", directory, tmp_path]
    renamed = steps.index(("renamed", tmp_path / "CURRENT"))
    assert {("synced", path.stat().st_ino) for path in files} <= set(steps[:renamed])
    assert steps[renamed + 1 :] == [("synced", tmp_path.stat().st_ino)]


def seen_by_the_disk(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """What is brought onto the disk, by inode, and what is renamed, in order."""
    import os

    steps: list[tuple[str, Any]] = []
    sync, rename = os.fsync, Path.replace

    def synced(handle: int) -> None:
        steps.append(("synced", os.fstat(handle).st_ino))
        sync(handle)

    def renamed(path: Path, target: Path) -> Path:
        steps.append(("renamed", target))
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    return steps


@pytest.mark.parametrize(
    ("noted", "batch_id"),
    [
        (None, 0),
        (ViewState(3, 3, notes_every_batch=True), 3),  # repeated
        (ViewState(3, 3, notes_every_batch=True), 4),
        (ViewState(3, 3, notes_every_batch=True), 0),  # of a query that was started anew
        (ViewState(3, 3), 9),  # an earlier version noted no batches without changes
    ],
)
def test_a_batch_follows_the_one_that_the_view_had_last(
    noted: ViewState | None, batch_id: int
) -> None:
    check_follows(Path("view"), noted, batch_id)


@pytest.mark.parametrize(
    ("noted", "batch_id", "had", "missing"),
    [
        (None, 1, "holds no view yet", "the changes of batch 0 would"),
        (ViewState(3, 3, {}, True), 5, "has taken in batch 3", "the changes of batch 4 would"),
        (ViewState(3, 3, {}, True), 9, "has taken in batch 3", "of batches 4 to 8 would"),
    ],
)
def test_a_batch_behind_a_gap_is_refused(
    noted: ViewState | None, batch_id: int, had: str, missing: str
) -> None:
    with pytest.raises(RestoreError, match="new checkpoint and a new directory") as caught:
        check_follows(Path("view"), noted, batch_id)

    assert had in str(caught.value)
    assert missing in str(caught.value)


def old_bucketed(path: Path) -> Callable[[], Any]:
    return BucketedView(path, buckets=2).state


def old_parquet(path: Path) -> Callable[[], Any]:
    return ParquetView(path).state


@pytest.mark.parametrize("state", [old_bucketed, old_parquet])
def test_the_state_of_an_earlier_version_of_the_library_is_read(
    state: Callable[[Path], Callable[[], Any]], tmp_path: Path
) -> None:
    written: dict[str, Any] = {"version": 7, "batch_id": 7, "positions": {"0": 100}}
    if state is old_bucketed:
        written |= {"bases": [5, 6], "changes": [6, 7], "schema": "{}"}
    (tmp_path / "CURRENT").write_text(json.dumps(written))

    found = state(tmp_path)()

    assert found.positions == {0: 100}
    assert not found.notes_every_batch
