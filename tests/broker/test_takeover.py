"""One of the cases of ``python -m tests.campaigns.takeover``: one application, two libraries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.campaigns.takeover.generations import controls, run


@pytest.mark.parametrize(("topology", "who"), [("suppress", "J!L")])
def test_what_comes_out_is_what_kafka_streams_alone_gives(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path, topology: str, who: str
) -> None:
    alone = next(controls(who))
    expected, _ = run(bootstrap, unique("alone"), tmp_path / "alone", topology, alone)
    found, _ = run(bootstrap, unique("both"), tmp_path / "both", topology, who)
    assert found == expected
    assert expected
    if "J!" in who:  # it did not leave the group, which is told once
        said = (tmp_path / "both" / "L.log").read_text()
        assert said.count("has members that use another protocol") == 1
