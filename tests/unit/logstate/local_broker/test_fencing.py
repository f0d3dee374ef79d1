"""Which broker has to be fenced before it starts."""

from __future__ import annotations

from pathlib import Path

from logstate.local_broker.fencing import was_killed
from logstate.local_broker.java import Java
from logstate.local_broker.jvm import Launch


def launch(data: Path) -> Launch:
    return Launch(
        java=Java(Path("java"), 17, "PATH"),
        jars=data,
        data=data,
        temporary=False,
        heap="1m",
        properties={},
        detached=False,
        timeout_s=1,
    )


def test_a_directory_in_which_no_broker_ever_ran_needs_no_fencing(tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka" / "meta.properties").touch()  # formatted

    assert not was_killed(launch(tmp_path))


def test_a_broker_that_ended_in_order_needs_no_fencing(tmp_path: Path) -> None:
    (tmp_path / "kafka" / "__cluster_metadata-0").mkdir(parents=True)
    (tmp_path / "kafka" / ".kafka_cleanshutdown").touch()

    assert not was_killed(launch(tmp_path))


def test_a_broker_that_left_no_sign_of_an_orderly_end_was_killed(tmp_path: Path) -> None:
    (tmp_path / "kafka" / "__cluster_metadata-0").mkdir(parents=True)

    assert was_killed(launch(tmp_path))
