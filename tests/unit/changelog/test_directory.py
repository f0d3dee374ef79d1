"""The state directory: one holder per slot, nothing deleted that is not ours."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from logstate.changelog.directory import MARKER, StateDirectory
from logstate.contracts.errors import StateDirectoryError
from logstate.contracts.records import TaskId
from tests.patience import PATIENCE_S

HOLDER = """
import sys
from logstate.changelog.directory import StateDirectory
directory = StateDirectory(sys.argv[1], "shop", slot=int(sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""

STANDS = "import sys; sys.stdin.read()"
OPENS_AND_CLOSES = """
import sys, threading
def churn():
    while True:
        open(sys.executable).close()
threading.Thread(target=churn, daemon=True).start()
sys.stdin.read()
"""
#: leaves its lock to a program that it starts: no fork that Python knows of
LEAVER = """
import os, subprocess, sys
from logstate.changelog.directory import StateDirectory
directory = StateDirectory(sys.argv[1], "shop")
os.set_inheritable(directory._lock_file, True)
kept = subprocess.Popen([sys.executable, "-c", sys.argv[2]], close_fds=False)
print(kept.pid, flush=True)
os._exit(0)
"""

# The superuser may write everywhere, so the process becomes someone else first.
UNPRIVILEGED = """
import os
from logstate.changelog.directory import StateDirectory
from logstate.contracts.errors import StateDirectoryError
if os.geteuid() == 0:
    os.setuid(65534)
try:
    StateDirectory("/", "shop-of-nobody")
except StateDirectoryError as error:
    print(error)
"""


def start_holder(state_dir: Path, slot: int = 0) -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(state_dir), str(slot)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_a_second_process_is_told_who_holds_the_directory(tmp_path: Path) -> None:
    with start_holder(tmp_path) as holder:
        with pytest.raises(StateDirectoryError) as refused:
            StateDirectory(tmp_path, "shop")
        holder.communicate(timeout=PATIENCE_S)
    message = str(refused.value)
    assert f"process {holder.pid} on host" in message
    assert "own state_dir" in message
    StateDirectory(tmp_path, "shop").close()


def test_a_killed_holder_leaves_no_lock_behind(tmp_path: Path) -> None:
    with start_holder(tmp_path) as holder:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait(PATIENCE_S)
    StateDirectory(tmp_path, "shop").close()


def test_workers_with_different_slots_share_the_directory(tmp_path: Path) -> None:
    with start_holder(tmp_path, slot=1) as holder:
        StateDirectory(tmp_path, "shop", slot=0).close()
        holder.communicate(timeout=PATIENCE_S)


def test_two_applications_share_a_state_dir(tmp_path: Path) -> None:
    with StateDirectory(tmp_path, "shop") as shop, StateDirectory(tmp_path, "bank") as bank:
        assert shop.path != bank.path


def test_a_task_has_a_directory_of_its_own_below_the_application(tmp_path: Path) -> None:
    with StateDirectory(tmp_path, "shop") as directory:
        assert directory.task_path(TaskId(0, 3)) == tmp_path / "shop" / "0_3"
        directory.task_path(TaskId(0, 10))
        assert directory.tasks() == [TaskId(0, 3), TaskId(0, 10)]


def test_only_the_owner_can_look_inside(tmp_path: Path) -> None:
    with StateDirectory(tmp_path / "state", "shop") as directory:
        path = directory.task_path(TaskId(0, 0))
        for inside in (tmp_path / "state" / "shop", path):
            assert stat.S_IMODE(inside.stat().st_mode) == 0o700


def test_a_directory_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop").chmod(0o755)
    StateDirectory(tmp_path, "shop").close()
    assert stat.S_IMODE((tmp_path / "shop").stat().st_mode) == 0o700


def test_an_instance_keeps_its_id_over_restarts_and_slots_differ(tmp_path: Path) -> None:
    with StateDirectory(tmp_path, "shop") as first:
        first_id = first.instance_id
    with (
        StateDirectory(tmp_path, "shop") as again,
        StateDirectory(tmp_path, "shop", slot=1) as other,
    ):
        assert again.instance_id == first_id
        assert other.instance_id != first_id


def test_a_torn_id_is_replaced(tmp_path: Path) -> None:
    StateDirectory(tmp_path, "shop").close()
    (tmp_path / "shop" / "instance-0.id").write_text("")
    with StateDirectory(tmp_path, "shop") as directory:
        assert len(directory.instance_id) == 36


def test_an_id_that_cannot_be_read_is_told_with_its_path_and_leaves_the_slot_free(
    tmp_path: Path,
) -> None:
    blocked = tmp_path / "shop" / "instance-0.id"
    blocked.mkdir(parents=True)
    with pytest.raises(StateDirectoryError, match=r"instance-0\.id cannot be used for state: Is a"):
        StateDirectory(tmp_path, "shop")
    blocked.rmdir()
    StateDirectory(tmp_path, "shop").close()


def test_deleting_a_task_removes_its_rows_and_nothing_else(tmp_path: Path) -> None:
    with StateDirectory(tmp_path, "shop") as directory:
        (directory.task_path(TaskId(0, 0)) / "000012.sst").write_text("rows")
        directory.task_path(TaskId(0, 1))
        directory.delete_task(TaskId(0, 0))
        directory.delete_task(TaskId(7, 7))
        assert directory.tasks() == [TaskId(0, 1)]


def test_a_directory_without_the_marker_is_never_deleted(tmp_path: Path) -> None:
    with StateDirectory(tmp_path, "shop") as directory:
        foreign = directory.path / "0_0"
        foreign.mkdir()
        (foreign / "thesis.txt").write_text("three years")
        with pytest.raises(StateDirectoryError, match="not made by this library"):
            directory.delete_task(TaskId(0, 0))
        assert (foreign / "thesis.txt").exists()


def test_a_delete_cut_short_is_finished_at_the_next_start(tmp_path: Path) -> None:
    with StateDirectory(tmp_path, "shop") as directory:
        half = directory.path / ".deleted-0_0-x"
        half.mkdir()
        (half / "000012.sst").write_text("rows")
    with StateDirectory(tmp_path, "shop"):
        assert not half.exists()


def test_a_damaged_task_is_kept_aside_for_examination_the_newest_few(tmp_path: Path) -> None:
    with StateDirectory(tmp_path, "shop") as directory:
        for number in range(5):
            (directory.task_path(TaskId(0, 0)) / "000012.sst").write_text(str(number))
            moved = directory.quarantine_task(TaskId(0, 0))
            assert (moved / "000012.sst").read_text() == str(number)
            assert directory.tasks() == []
        kept = sorted((directory.path / "quarantine").iterdir())
        assert [(path / "000012.sst").read_text() for path in kept] == ["2", "3", "4"]


def test_workers_that_share_a_directory_may_all_have_damaged_tasks(tmp_path: Path) -> None:
    def put_aside(slot: int) -> None:
        with StateDirectory(tmp_path, "shop", slot=slot) as directory:
            for number in range(40):
                task = TaskId(slot, number)
                (directory.task_path(task) / "000012.sst").touch()
                directory.quarantine_task(task)

    with ThreadPoolExecutor() as workers:
        list(workers.map(put_aside, range(4)))
    assert len(list((tmp_path / "shop" / "quarantine").iterdir())) == 3


@pytest.mark.parametrize(
    "told", [{"format": 99, "application_id": "shop", "task": "0_0"}, ["no", "object"], None]
)
def test_the_directory_of_another_format_is_refused(tmp_path: Path, told: object) -> None:
    with StateDirectory(tmp_path, "shop") as directory:
        marker = directory.task_path(TaskId(0, 0)) / MARKER
        marker.write_text(json.dumps(told))
        with pytest.raises(StateDirectoryError, match="another version"):
            directory.task_path(TaskId(0, 0))


def test_a_task_directory_moved_to_another_task_is_refused(tmp_path: Path) -> None:
    with StateDirectory(tmp_path, "shop") as directory:
        directory.task_path(TaskId(0, 0)).rename(directory.path / "0_1")
        with pytest.raises(StateDirectoryError, match="moved here by hand"):
            directory.task_path(TaskId(0, 1))


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", ".hidden", "a" * 101, "a b"])
def test_an_application_id_that_is_no_plain_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StateDirectoryError, match="cannot name a directory"):
        StateDirectory(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "shop").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateDirectoryError, match="symbolic link"):
        StateDirectory(tmp_path / "state", "shop")


def test_a_place_that_cannot_hold_directories_is_an_error_that_says_what_to_do(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateDirectoryError, match="Set state_dir"):
        StateDirectory(tmp_path / "file", "shop")


def test_an_unwritable_directory_is_an_error_that_says_what_to_do() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert "Permission denied" in ran.stdout or "Read-only file system" in ran.stdout
    assert "Set state_dir" in ran.stdout


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_does_not_keep_the_lock_of_the_one_that_took_it(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    directory = StateDirectory(tmp_path, "shop")
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)  # it lives until the test is over
        os._exit(0)
    os.close(reading)
    try:
        with pytest.raises(StateDirectoryError, match="in use"):
            StateDirectory(tmp_path, "shop")  # a fork lets go of nothing that is its parent's
        directory.close()
        StateDirectory(tmp_path, "shop").close()
    finally:
        os.close(writing)
        os.waitpid(child, 0)


@pytest.mark.parametrize("keeps", [STANDS, OPENS_AND_CLOSES], ids=["stands", "works"])
def test_a_lock_that_was_left_to_another_process_names_that_one(tmp_path: Path, keeps: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LEAVER, str(tmp_path), keeps],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        kept = int(owner.stdout.readline())
        owner.wait(30)
        for _ in range(20):  # it opens and closes files while they are looked at
            with pytest.raises(StateDirectoryError, match=rf"held by process {kept} \(") as refused:
                StateDirectory(tmp_path, "shop")
        assert owner.stdin is not None
        owner.stdin.close()
        message = str(refused.value)
        assert "import sys" in message  # its command line
        assert f"was taken by process {owner.pid} on host" in message
        assert "which is gone" in message


# --- what is deleted under a holder ---------------------------------------------------------------


@pytest.mark.parametrize("deleted", ["instance-0.lock", "instance-0.id"])
def test_a_deleted_file_lets_nobody_else_have_the_slot(tmp_path: Path, deleted: str) -> None:
    with StateDirectory(tmp_path, "shop") as held:
        (held.path / deleted).unlink()
        with pytest.raises(StateDirectoryError, match="slot 0 of application 'shop' is held by"):
            StateDirectory(tmp_path, "shop")
    StateDirectory(tmp_path, "shop").close()


@pytest.mark.parametrize("deleted", [(".lock",), (".id",), (".lock", ".id")], ids=str)
def test_deleted_files_are_made_and_locked_again(
    tmp_path: Path, deleted: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    with StateDirectory(tmp_path, "shop") as held:
        for suffix in deleted:
            (held.path / f"instance-0{suffix}").unlink()
        held.check()
        assert len(caplog.records) == len(deleted)
        held.check()
        assert len(caplog.records) == len(deleted), "told once"
        (held.path / "instance-0.lock").unlink()
        with pytest.raises(StateDirectoryError, match="in use"):
            StateDirectory(tmp_path, "shop")
        identity = held.instance_id
    with StateDirectory(tmp_path, "shop") as again:
        assert again.instance_id == identity


def test_a_slot_that_another_took_meanwhile_ends_the_first_holder(tmp_path: Path) -> None:
    with StateDirectory(tmp_path, "shop") as first:
        (first.path / "instance-0.lock").unlink()
        (first.path / "instance-0.id").unlink()
        second = StateDirectory(tmp_path, "shop")
        with pytest.raises(StateDirectoryError, match=r"slot 0 .* is held by process"):
            first.check()
        second.close()


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_directory_that_was_deleted_is_noticed(tmp_path: Path, is_made_again: bool) -> None:
    with StateDirectory(tmp_path, "shop") as held:
        held.check()
        held.path.rename(tmp_path / "elsewhere")
        if is_made_again:
            StateDirectory(tmp_path, "shop").close()
        with pytest.raises(StateDirectoryError, match=r"shop was deleted .*Set state_dir"):
            held.check()


def test_the_directory_of_an_open_task_is_looked_at_and_that_of_others_is_not(
    tmp_path: Path,
) -> None:
    with StateDirectory(tmp_path, "shop") as held:
        task, other = TaskId(0, 1), TaskId(0, 2)
        held.task_path(task).rename(tmp_path / "elsewhere")
        held.task_path(other)
        held.check([other])
        with pytest.raises(StateDirectoryError, match=r"0_1 was deleted"):
            held.check([other, task])
        held.task_path(task)
        held.check([other, task])


def test_a_slot_whose_lock_was_deleted_keeps_the_tasks_from_being_deleted(tmp_path: Path) -> None:
    with StateDirectory(tmp_path, "shop", slot=1) as live:
        task = live.task_path(TaskId(0, 0))
        (live.path / "instance-1.lock").unlink()
        other = StateDirectory(tmp_path, "shop")
        with pytest.raises(StateDirectoryError, match="slot 1"):
            other.delete_tasks()
        other.close()
        assert task.is_dir()


def test_a_directory_that_was_deleted_has_no_tasks(tmp_path: Path) -> None:
    """Who looks for unused rows fails for that as little as for an empty directory."""
    with StateDirectory(tmp_path, "shop") as directory:
        directory.task_path(TaskId(0, 0))
        shutil.rmtree(directory.path)
        assert directory.tasks() == []
