"""What is said where Faust itself is not installed."""

from __future__ import annotations

import subprocess
import sys

from tests.patience import PATIENCE_S


def test_the_extra_is_named() -> None:
    script = "import sys; sys.modules['faust'] = None; import logstate.faust"
    told = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert "pip install 'logstate[faust]'" in told.stderr.splitlines()[-1]
