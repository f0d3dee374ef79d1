"""A worker on a real RocksDB whose files are damaged: a rebuild, or a clean stop."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logstate.changelog.backend.rocks import RocksBackend
from logstate.changelog.directory import StateDirectory
from logstate.contracts.errors import (
    BrokerError,
    RestoreError,
    StateDirectoryError,
    StoreCorruptedError,
)
from logstate.contracts.records import Record, TaskId
from logstate.task.owned_task import Stage
from logstate.testing import FakeCluster
from logstate.topology import Processor, StreamsBuilder, key_value_store
from tests.patience import PATIENCE_S
from tests.unit.logstate.flows import counted
from tests.unit.logstate.worker.worker_rig import Disk, WorkerRig, cluster_of, outputs, send

KEYS = [f"key-{i:04}" for i in range(400)]


class RocksDisk(Disk):
    """The state directory of one instance."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.directory = StateDirectory(path, "app")

    @property
    def task_path(self) -> Path:
        return self.directory.path / "0_0"

    def open(self, task_id: TaskId) -> Any:
        return RocksBackend(self.directory.task_path(task_id))

    def destroy(self, task_id: TaskId) -> None:
        self.destroyed.append(task_id)
        self.directory.quarantine_task(task_id)


@pytest.fixture
def disk(tmp_path: Path) -> RocksDisk:
    return RocksDisk(tmp_path)


@pytest.fixture
def cluster() -> FakeCluster:
    return cluster_of({"in": 1, "out": 1})


def counted_once(cluster: FakeCluster, disk: RocksDisk) -> None:
    """An instance that has counted every key once, written its table files and ended."""
    rig = WorkerRig(cluster, counted, disk=disk).start().until_running()
    send(cluster, *KEYS)
    rig.commit()
    rig.stop()
    backend = RocksBackend(disk.task_path)
    backend.flush()
    backend.close()
    assert list(disk.task_path.glob("*.sst"))


def counts_on(cluster: FakeCluster, disk: RocksDisk, caplog: pytest.LogCaptureFixture) -> str:
    """The next instance counts every key a second time, rightly; returns what it logged."""
    rig = WorkerRig(cluster, counted, disk=disk)
    with caplog.at_level(logging.WARNING):
        rig.start().until_running()
        send(cluster, *KEYS)
        rig.commit()
        rig.until_running()
        rig.commit()
        rig.commit()
    assert sorted(outputs(cluster)) == sorted((key, n) for key in KEYS for n in "12")
    rig.stop()
    return caplog.text


def flip(path: Path) -> None:
    """Damage a block in the middle of a file."""
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 64] = bytes(byte ^ 0xFF for byte in data[middle : middle + 64])
    path.write_bytes(data)


# --- damage that a rebuild mends ------------------------------------------------------------------


def a_damaged_block(path: Path) -> None:
    for table in path.glob("*.sst"):
        flip(table)


def a_table_cut_off(path: Path) -> None:
    for table in path.glob("*.sst"):
        table.write_bytes(table.read_bytes()[: table.stat().st_size // 2])


def a_missing_table(path: Path) -> None:
    for table in path.glob("*.sst"):
        table.unlink()


def a_missing_manifest(path: Path) -> None:
    for manifest in path.glob("MANIFEST-*"):
        manifest.unlink()


def a_damaged_manifest(path: Path) -> None:
    for manifest in path.glob("MANIFEST-*"):
        flip(manifest)


def a_current_file_of_garbage(path: Path) -> None:
    (path / "CURRENT").write_bytes(b"nothing of ours\n")


def an_empty_current_file(path: Path) -> None:
    (path / "CURRENT").write_bytes(b"")


@pytest.mark.parametrize(
    "damage",
    [
        a_damaged_block,
        a_table_cut_off,
        a_missing_table,
        a_missing_manifest,
        a_damaged_manifest,
        a_current_file_of_garbage,
        an_empty_current_file,
    ],
)
def test_damaged_files_are_given_up_with_a_word_and_the_rows_come_from_the_changelog(
    damage: Callable[[Path], None],
    cluster: FakeCluster,
    disk: RocksDisk,
    caplog: pytest.LogCaptureFixture,
) -> None:
    counted_once(cluster, disk)
    damage(disk.task_path)
    said = counts_on(cluster, disk, caplog)
    assert disk.destroyed == [TaskId(0, 0)]
    assert "task 0_0: its local state is rebuilt: Could not" in said
    assert "its files are damaged" in said
    assert len(list((disk.directory.path / "quarantine").iterdir())) == 1


def test_without_its_current_file_a_directory_is_an_empty_one(
    cluster: FakeCluster, disk: RocksDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing tells it from one that was never written; it is filled from the changelog."""
    counted_once(cluster, disk)
    (disk.task_path / "CURRENT").unlink()
    counts_on(cluster, disk, caplog)


def test_a_directory_that_is_gone_is_filled_again(
    cluster: FakeCluster, disk: RocksDisk, caplog: pytest.LogCaptureFixture
) -> None:
    counted_once(cluster, disk)
    disk.directory.delete_task(TaskId(0, 0))
    counts_on(cluster, disk, caplog)
    assert disk.destroyed == []


def test_damage_that_is_found_at_work_disturbs_no_other_task(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = cluster_of({"in": 2, "out": 1})
    disk = RocksDisk(tmp_path)
    rig = WorkerRig(cluster, counted, disk=disk).start().until_running("0_0", "0_1")
    send(cluster, *KEYS)
    rig.commit()
    rig.stop()
    for task in ("0_0", "0_1"):
        backend = RocksBackend(disk.directory.path / task)
        backend.flush()
        backend.close()
    a_damaged_block(disk.task_path)
    rig = WorkerRig(cluster, counted, disk=disk).start().until_running("0_0", "0_1")
    assert disk.destroyed == [], "a block is only looked at when it is read"
    send(cluster, *KEYS)
    rig.commit()
    rig.until_running("0_0", "0_1")
    rig.commit()
    rig.commit()
    assert sorted(outputs(cluster)) == sorted((key, n) for key in KEYS for n in "12")
    assert disk.destroyed == [TaskId(0, 0)]
    assert rig.tasks["0_1"].restored_records == 0
    rig.stop()


def test_a_disk_that_damages_whatever_is_written_stops_the_worker(
    cluster: FakeCluster, disk: RocksDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = WorkerRig(cluster, counted, disk=disk, aborts_max=2).start().until_running()

    def damaged(backend: RocksBackend, *_: object) -> None:
        raise StoreCorruptedError("block 7 is damaged", backend.path)

    monkeypatch.setattr(RocksBackend, "write", damaged)
    send(cluster, "a")

    def on_and_on() -> None:
        for _ in range(40):
            rig.clock.advance(20_000)
            rig.turn()

    with pytest.raises(BrokerError, match="block 7 is damaged"):
        on_and_on()
    assert rig.is_finished


def test_stores_without_a_changelog_are_empty_only_where_that_was_accepted(
    cluster: FakeCluster, disk: RocksDisk, caplog: pytest.LogCaptureFixture
) -> None:
    class Last(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            store = self.context.store("last")
            before = store.get(record.key) or "none"
            store.put(record.key, record.value)
            self.context.forward(record._replace(value=before))

    def declare(builder: StreamsBuilder) -> None:
        stores = key_value_store("last", str, str, logged=False)
        stream = builder.stream("in", key=str, value=str)
        stream.process(Last, stores=stores).to("out", key=str, value=str)

    rig = WorkerRig(cluster, declare, disk=disk).start().until_running()
    send(cluster, "a")
    rig.commit()
    rig.stop()
    a_damaged_manifest(disk.task_path)
    rig = WorkerRig(cluster, declare, disk=disk).start()
    with pytest.raises(RestoreError, match=r"\['last'\] have no changelog.*MANIFEST"):
        rig.turn(10)
    rig = WorkerRig(cluster, declare, disk=disk, on_state_loss="continue")
    with caplog.at_level(logging.WARNING):
        rig.start().until_running()
    send(cluster, "a")
    rig.commit()
    assert outputs(cluster) == [("a", "none"), ("a", "none")]
    assert "stores ['last'] have no changelog: they are empty now" in caplog.text
    rig.stop()


# --- what no rebuild mends ------------------------------------------------------------------------


def test_a_database_that_another_worker_still_has_open_is_waited_for(
    cluster: FakeCluster, disk: RocksDisk, caplog: pytest.LogCaptureFixture
) -> None:
    counted_once(cluster, disk)
    holder = RocksBackend(disk.task_path)
    rig = WorkerRig(cluster, counted, disk=disk).start()
    for _ in range(4):
        rig.clock.advance(1_000)
        rig.turn()
    assert "waits for its directory" not in caplog.text
    for _ in range(4):
        rig.clock.advance(1_000)
        rig.turn()
    assert rig.stages == {"0_0": Stage.ASSIGNED}
    assert caplog.text.count("task 0_0 waits for its directory") == 1
    kept = [one for record in caplog.records for one in record.args or ()]
    assert not any(isinstance(one, Exception) for one in kept), "its frames have the open stores"
    asked = rig.steps.count("end_offsets")
    rig.turn(5)
    assert rig.steps.count("end_offsets") <= asked + 1, "brokers are not asked all the time"
    holder.close()
    rig.clock.advance(1_000)
    rig.until_running("0_0")
    rig.stop()


def test_a_database_that_somebody_else_keeps_open_stops_the_worker(
    cluster: FakeCluster, disk: RocksDisk
) -> None:
    counted_once(cluster, disk)
    holder = RocksBackend(disk.task_path)
    rig = WorkerRig(cluster, counted, disk=disk).start()
    rig.turn(20)
    rig.clock.advance(120_000)
    with pytest.raises(StateDirectoryError, match="open elsewhere"):
        rig.turn(20)
    assert rig.is_finished
    assert cluster.group("app").members == {}
    holder.close()
    rig = WorkerRig(cluster, counted, disk=disk).start().until_running()
    assert rig.stages == {"0_0": Stage.RUNNING}
    rig.stop()


FULL = """
import resource, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from logstate.contracts.errors import StoreError
from tests.unit.logstate.restore.test_damaged_disks import RocksDisk, counted
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, outputs, send

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
cluster = cluster_of({"in": 1, "out": 1})
disk = RocksDisk(Path(sys.argv[1]))
keys = [f"key-{i:06}" for i in range(4_000)]
rig = WorkerRig(cluster, counted, disk=disk).start().until_running()
send(cluster, *keys)
rig.commit()
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, hard))
rig.clock.advance(20_000)
send(cluster, *keys[:5])
try:
    for _ in range(5):
        rig.commit()
except StoreError as error:
    print("stopped:", "the disk is full" in str(error))
assert rig.is_finished
assert cluster.transactions.open_transactions() == []
assert cluster.group("app").members == {}
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
rig = WorkerRig(cluster, counted, disk=disk).start().until_running()
send(cluster, *keys)
rig.commit()
rig.commit()
found = outputs(cluster)
times = {k: 3 if k in keys[:5] else 2 for k in keys}
expected = sorted((k, str(n + 1)) for k in keys for n in range(times[k]))
assert sorted(found) == expected, len(found)
rig.stop()
print("counted on")
"""


def test_a_full_disk_stops_the_worker_cleanly_and_nothing_is_lost(tmp_path: Path) -> None:
    root = str(Path(__file__).resolve().parents[4])
    answer = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path), root],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        cwd=root,
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    assert answer.stdout.splitlines() == ["stopped: True", "counted on"]
