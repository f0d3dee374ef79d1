"""The local state that ``logstate reset`` finds, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from logstate.changelog.directory import StateDirectory
from logstate.cli.shared.stored_state import (
    delete_local_state,
    task_directories,
    topics_of_other_applications,
)
from logstate.contracts.errors import ConfigError
from logstate.contracts.records import TaskId
from logstate.testing import FakeCluster
from logstate.topics.manifest_changes import Manifest


def test_a_state_dir_that_the_application_never_used_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        task_directories(tmp_path, "shop")
    assert f"--state-dir {tmp_path} has no directory 'shop'" in str(caught.value)
    assert "leave --state-dir out" in str(caught.value)


def test_directories_of_tasks_are_listed_and_a_second_reset_finds_none(tmp_path: Path) -> None:
    with StateDirectory(tmp_path, "shop") as directory:
        directory.task_path(TaskId(0, 1))  # makes it
    assert task_directories(tmp_path, "shop") == [str(tmp_path / "shop" / "0_1")]
    delete_local_state(tmp_path, "shop")
    assert task_directories(tmp_path, "shop") == []


def test_a_reset_that_names_no_directory_leaves_them(tmp_path: Path) -> None:
    assert task_directories(None, "shop") == []
    with pytest.raises(ConfigError):
        task_directories(tmp_path / "mistyped", "shop")
    assert not (tmp_path / "mistyped").exists()


def test_another_application_that_can_have_a_topic_of_the_same_name_is_looked_at() -> None:
    cluster = FakeCluster(dict.fromkeys(("shop-cuts", "shop-eu-cuts", "shop-us-cuts"), 1))
    asked = []

    def manifest_of(application_id: str) -> Manifest:
        asked.append(application_id)
        entry = {"kind": "key_value", "changelog_topic": f"{application_id}-total-changelog"}
        return {"stores": {"total": entry}, "topics": {}}

    named = ["shop-eu-total-changelog", "shop-total-changelog"]
    shared = topics_of_other_applications("shop", cluster.admin(), named, manifest_of)
    assert shared == {"shop-eu-total-changelog": "shop-eu"}
    assert asked == ["shop-eu"]
