"""Ten faults on a real broker; ``python -m tests.campaigns.chaos`` does any number.

A broker that is killed is fenced before it starts again (`logstate.local_broker.fencing`): what it
would lose otherwise is lost by the broker, and left out here. See docs/verification.md.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaigns.chaos.disk import unmount_below
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]
#: ten faults take a minute on a machine that has nothing else to do; this ends what hangs
LIMIT_S = 1_500

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(LIMIT_S + 200)]


def test_ten_faults_lose_and_double_nothing(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    command = [sys.executable, "-m", "tests.campaigns.chaos", "--kills", "10", "--seed", "7"]
    # A group of its own, and a file for its words: whatever hangs, it ends with the limit.
    with (tmp_path / "said").open("w+b") as said:
        process = subprocess.Popen(
            [*command, "--keep", str(kept)],
            cwd=ROOT,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        try:
            status = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            status = None
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE_S)
        finally:
            unmount_below(kept)
        said.seek(0)
        story = said.read().decode(errors="replace")

    assert status == 0, f"{'it hung' if status is None else status}\n{story[-4000:]}"
    assert story.splitlines()[-1] == "10 kills, 0 lost, 0 duplicated"
