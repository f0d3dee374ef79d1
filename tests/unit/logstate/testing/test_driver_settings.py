"""A test driver checks its settings before anything opens, as an Application does."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate import ConfigError, StateDirectoryError, StreamsBuilder, TopologyTestDriver, skip

WRONG: dict[str, list[Any]] = {
    "application_id": ["", " ", None, 5, "a/b"],
    "wall_clock_start_ms": ["0", 1.5, None, True, timedelta(1)],
    "changelog_writes": ["never", None, True],
    "commit_every": [0, -1, True, "5", None],
    "apply_every": [0, -1, True, "5", None],
    "state_dir": [5, b"x", True, "", " ", "$HOME/state", "s3://bucket/x", "\ud800"],
    "error_handlers": [skip, "skip", True, []],
    "topics": ["out", 5, None, {"out": 0}, {"out": "4"}],
    "renamed": [["a"], {"a": 1}],
    "forget": ["counts", 5, [1]],
}


@pytest.mark.parametrize("name", WRONG)
def test_a_setting_of_another_type_is_refused_by_name(name: str, tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).to("out")
    topology = builder.build()
    for wrong in WRONG[name]:
        with pytest.raises(ConfigError, match=name) as raised:
            TopologyTestDriver(topology, **{"state_dir": tmp_path / "state", name: wrong})
        assert len(raised.value.problems) == 1
    assert not list(tmp_path.iterdir())


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        TopologyTestDriver(StreamsBuilder(), commit_every=0, topics="out")  # type: ignore[arg-type]
    assert len(raised.value.problems) == 3


def test_a_file_is_no_state_directory(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).to("out")
    topology = builder.build()
    (tmp_path / "file").touch()
    for wrong in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StateDirectoryError, match="cannot be used for state"):
            TopologyTestDriver(topology, state_dir=wrong)
