"""Which members of the group an instance of worker processes says are its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from logstate.app.instance import restarts
from tests.unhurried import unhurried
from tests.unit.logstate.app.instance.thread_process import Rig
from tests.unit.logstate.flows import counted


def test_static_members_are_told_of_until_one_is_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(restarts, "FIRST_WAIT_MS", 1.0)
    told = []
    with Rig(unhurried({"in": 4, "out": 1}), tmp_path, counted, static_membership=True) as rig:
        rig.until_running()
        assert rig.workers.scale(1) == 3
        rig.until(lambda: rig.workers.are_tasks_running and len(rig.workers.group_members) == 3)
        assert rig.workers.scale(-1) == 2
        rig.until(lambda: len(rig.workers._statuses) == 2)
        names = [instance_id for _, instance_id in rig.workers.group_members]
        rig.alive[1].kill()
        rig.until(lambda: told.append(rig.workers.group_members) or rig.lives[1] == 2)
        rig.until_running()
    told.append(rig.workers.group_members)
    assert len(names) == 2
    assert all([instance_id for _, instance_id in members] == names for members in told)
