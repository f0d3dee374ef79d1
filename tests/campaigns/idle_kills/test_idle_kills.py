"""A few kills on a real broker; ``python -m tests.campaigns.idle_kills`` does any number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.campaigns.idle_kills.story import MODES, Run

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.mark.parametrize(
    ("mode", "kills"),
    [
        ("alone", [("tick", "freeze"), ("tick", "commit"), ("late", "produce")]),
        ("workers", [("tick", "emit"), ("late", "commit")]),
        ("standbys", [("tick", "send_offsets")]),
    ],
)
def test_a_kill_between_two_steps_loses_and_repeats_no_result(
    bootstrap: str,
    unique: Callable[[str], str],
    tmp_path: Path,
    mode: str,
    kills: list[tuple[str, str]],
) -> None:
    run = Run(bootstrap, unique("idle-kills"), tmp_path, MODES[mode])
    try:
        found = run.kill_in(kills, lambda _: None)
    finally:
        run.close()
    assert found.wrong == []
    assert sorted(found.kills) == sorted(f"{kind}: {step}" for kind, step in kills)
