"""State that is deleted, and topics whose settings change, while an application runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logstate import Application, StreamsBuilder
from logstate.contracts.errors import StateDirectoryError, TopicError
from logstate.testing import FakeCluster
from tests.patience import until
from tests.unit.logstate.flows import recounted
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, send


def application(cluster: FakeCluster, state_dir: Path) -> Application:
    builder = StreamsBuilder()
    builder.stream("in", value=str).group_by_key().count(store="n")
    return Application(
        builder.build(), application_id="app", bootstrap="f:1", state_dir=state_dir, cluster=cluster
    )


@pytest.mark.parametrize("what", ["", "app", "app/0_0"])
def test_a_deleted_directory_ends_the_instance_and_names_it(tmp_path: Path, what: str) -> None:
    cluster = FakeCluster({"in": 1})
    app = application(cluster, tmp_path / "state").start()
    app.wait_until_running()
    cluster.produce("in", b"k", b"v", timestamp=1)
    until(lambda: app.store("n").get("k"))
    shutil.rmtree(tmp_path / "state" / what)
    until(lambda: app.state.is_over)
    with pytest.raises(StateDirectoryError, match=r"was deleted.*Set state_dir"):
        app.close()
    with application(cluster, tmp_path / "state") as again:
        again.wait_until_running()
        row = again.store("n").get("k")
        assert row is not None
        assert row.value == 1


def test_a_deleted_lock_file_admits_no_second_instance(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = FakeCluster({"in": 1})
    with application(cluster, tmp_path) as app:
        app.wait_until_running()
        (tmp_path / "app" / "instance-0.lock").unlink()
        with pytest.raises(StateDirectoryError, match="in use"):
            application(cluster, tmp_path)
        with pytest.raises(StateDirectoryError, match="slot 0 of application 'app' is held"):
            application(cluster, tmp_path)
        until(lambda: "is made again" in caplog.text)
        with pytest.raises(StateDirectoryError, match=r"held by process \d+"):
            application(cluster, tmp_path)


# --- settings of topics ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "setting", "value"),
    [
        ("app-counts-changelog", "cleanup.policy", "compact,delete"),
        ("app-by-word-repartition", "retention.ms", "86400000"),
        ("app-by-word-repartition", "cleanup.policy", "compact"),
        ("app-cuts", "cleanup.policy", "delete"),
    ],
)
def test_a_setting_that_would_lose_records_ends_the_instance_within_half_a_minute(
    topic: str, setting: str, value: str
) -> None:
    cluster = cluster_of({"in": 1, "out": 1})
    rig = WorkerRig(cluster, recounted).start().until_running()
    cluster.topics[topic].config[setting] = value
    with pytest.raises(
        TopicError, match=rf"while the application was running: .*'{topic}' has {setting}"
    ):
        rig.until(lambda: rig.clock.advance(1_000) or rig.clock.monotonic_ms() > 100_000_000)
    assert rig.is_finished


def test_other_settings_may_change() -> None:
    cluster = cluster_of({"in": 1, "out": 1})
    rig = WorkerRig(cluster, recounted).start().until_running()
    cluster.topics["app-counts-changelog"].config["segment.bytes"] = "1000000"
    for _ in range(70):
        rig.clock.advance(1_000)
        rig.turn()
    send(cluster, "a")
    rig.commit()
    assert not rig.is_finished
