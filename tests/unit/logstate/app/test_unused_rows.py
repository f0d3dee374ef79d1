"""Local rows of tasks that moved away, and when they are removed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from logstate import Application, StreamsBuilder, Topology
from logstate.app.unused_rows import UnusedRows
from logstate.changelog.directory import MARKER, StateDirectory
from logstate.contracts.clock import ManualClock
from logstate.contracts.errors import ConfigError
from logstate.contracts.records import TaskId
from logstate.testing import FakeCluster
from logstate.topology import Materialized
from tests.patience import until

DELAY_MS = 600_000
HERE, GONE = TaskId(0, 0), TaskId(0, 1)
ROOT = Path(__file__).resolve().parents[4]


def counted(*, is_logged: bool = True) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    grouped.count(store=Materialized("counts", logged=is_logged))
    return builder.build()


class Looks:
    """The directories of two tasks, of which one is assigned here; a look every 30 s."""

    def __init__(self, path: Path, topology: Topology) -> None:
        self.directory = StateDirectory(path, "app")
        for task in (HERE, GONE):
            (self.directory.task_path(task) / "000001.sst").write_bytes(b"rows")
        self.clock = ManualClock(1_000)
        self.here: set[TaskId] | None = {HERE}
        self.rows = UnusedRows(self.directory, topology, self.clock, DELAY_MS, lambda: self.here)

    def during(self, ms: int, step_ms: int = 30_000) -> list[TaskId]:
        """What the looks of so long removed."""
        removed = []
        for _ in range(ms // step_ms):
            self.clock.advance(step_ms)
            removed += self.rows.check()
        return removed


@pytest.fixture
def looks(tmp_path: Path) -> Iterator[Looks]:
    made = Looks(tmp_path, counted())
    yield made
    made.directory.close()


def test_rows_of_a_task_that_moved_away_are_removed_after_the_delay(looks: Looks) -> None:
    looks.rows.check()
    assert looks.during(DELAY_MS - 30_000) == []
    assert looks.during(30_000) == [GONE]
    assert looks.directory.tasks() == [HERE]
    assert not list(looks.directory.path.glob(".deleted-*"))


def test_a_task_that_came_back_for_a_moment_has_the_whole_delay_again(looks: Looks) -> None:
    looks.during(DELAY_MS - 60_000)
    looks.here = {HERE, GONE}
    looks.during(30_000)
    looks.here = {HERE}
    assert looks.during(DELAY_MS) == []
    assert looks.during(30_000) == [GONE]


def test_a_directory_that_a_worker_of_another_process_has_open_is_kept(
    looks: Looks, tmp_path: Path
) -> None:
    program = (
        "import sys\n"
        "from logstate.changelog.directory import StateDirectory\n"
        "from logstate.contracts.records import TaskId\n"
        f"directory = StateDirectory({str(tmp_path)!r}, 'app', slot=1)\n"
        "path, lock = directory.use_task(TaskId(0, 1))\n"
        "print('open', flush=True)\n"
        "sys.stdin.readline()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "open\n"
    assert looks.during(3 * DELAY_MS) == []
    other.kill()  # the lock ends with the process
    other.communicate()
    assert looks.during(DELAY_MS) == []
    assert looks.during(30_000) == [GONE]


def test_a_directory_in_use_in_this_process_is_kept_until_its_lock_is_released(
    looks: Looks,
) -> None:
    _, first = looks.directory.use_task(GONE)
    _, second = looks.directory.use_task(GONE)
    assert looks.during(2 * DELAY_MS) == []
    first.release()
    first.release()
    assert looks.during(2 * DELAY_MS) == []
    second.release()
    assert looks.during(2 * DELAY_MS) == [GONE]


def test_a_task_that_is_opened_after_the_removal_has_a_directory_of_its_own(looks: Looks) -> None:
    assert looks.during(2 * DELAY_MS) == [GONE]
    path, lock = looks.directory.use_task(GONE)
    assert sorted(entry.name for entry in path.iterdir()) == [MARKER]
    assert looks.during(2 * DELAY_MS) == []
    lock.release()


@pytest.mark.parametrize("state", ["not assigned", "suspended"])
def test_time_in_which_the_instance_is_no_settled_member_does_not_count(
    looks: Looks, state: str
) -> None:
    looks.rows.check()
    if state == "not assigned":
        looks.here = None
        looks.during(10 * DELAY_MS)
        looks.here = {HERE}
    else:
        looks.clock.advance(10 * DELAY_MS)
    assert looks.during(DELAY_MS // 2) == []
    assert looks.during(DELAY_MS) == [GONE]


def test_rows_that_no_changelog_has_are_kept(tmp_path: Path) -> None:
    looks = Looks(tmp_path, counted(is_logged=False))
    assert looks.during(10 * DELAY_MS) == []
    looks.directory.close()


def test_rows_of_a_task_that_the_topology_does_not_have_are_kept(looks: Looks) -> None:
    looks.directory.task_path(TaskId(7, 0))
    looks.during(10 * DELAY_MS)
    assert looks.directory.tasks() == [HERE, TaskId(7, 0)]


def test_a_directory_that_is_not_ours_is_refused_once(
    looks: Looks, caplog: pytest.LogCaptureFixture
) -> None:
    (looks.directory.path / str(GONE) / MARKER).unlink()
    assert looks.during(10 * DELAY_MS) == []
    assert caplog.text.count("cannot be removed") == 1
    assert (looks.directory.path / str(GONE) / "000001.sst").exists()


def test_what_a_crash_left_half_removed_goes_at_the_next_start(tmp_path: Path) -> None:
    looks = Looks(tmp_path, counted())
    path = looks.directory.path / str(GONE)
    path.rename(path.with_name(".deleted-0_1-half"))
    looks.directory.close()
    with StateDirectory(tmp_path, "app") as directory:
        assert directory.tasks() == [HERE]
        assert not list(directory.path.glob(".deleted-*"))


def test_a_forked_process_does_not_keep_a_directory_in_use(looks: Looks) -> None:
    _, lock = looks.directory.use_task(GONE)
    (reader, writer), (child_reader, child_writer) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.write(child_writer, b"x")
        os.read(reader, 1)  # until the parent is done
        os._exit(0)
    assert os.read(child_reader, 1) == b"x"
    lock.release()
    try:
        assert not looks.directory.is_task_used(GONE)
    finally:
        for file in (writer, reader, child_reader, child_writer):
            os.close(file)
        os.waitpid(child, 0)


def test_an_application_removes_the_rows_of_a_task_that_another_instance_has(
    tmp_path: Path,
) -> None:
    cluster = FakeCluster({"in": 2})

    def instance(name: str) -> Application:
        return Application(
            counted(),
            application_id="app",
            bootstrap="fake",
            state_dir=tmp_path / name,
            cluster=cluster,
            state_cleanup_delay=timedelta(milliseconds=20),
        )

    def tasks(name: str) -> set[str]:
        return {entry.name for entry in (tmp_path / name / "app").glob("0_*")}

    with instance("first") as first:
        first.wait_until_running()
        assert tasks("first") == {"0_0", "0_1"}
        with instance("second") as second:
            second.wait_until_running()
            until(lambda: len(tasks("first")) == 1, "the rows of the task that moved stay")
            assert tasks("first") == set(first.tasks())
            assert tasks("second") == set(second.tasks())


def test_the_delay_is_a_time_or_none(tmp_path: Path) -> None:
    for given in (timedelta(seconds=-1), 600):
        with pytest.raises(ConfigError, match="state_cleanup_delay"):
            Application(
                counted(),
                application_id="app",
                bootstrap="fake:9092",
                state_dir=tmp_path,
                state_cleanup_delay=given,  # type: ignore[arg-type]
            )
