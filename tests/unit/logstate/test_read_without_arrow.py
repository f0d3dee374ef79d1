"""Without pyarrow everything else works, and ``read`` says what is missing."""

from __future__ import annotations

import subprocess
import sys

from tests.patience import PATIENCE_S

SCRIPT = """
import sys
sys.modules["pyarrow"] = None
import logstate
logstate.latest_cut
logstate.read("shop", "spend", bootstrap="127.0.0.1:1")
"""


def test_reading_says_in_one_sentence_that_pyarrow_is_missing() -> None:
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert result.returncode == 1
    assert "pip install 'logstate[arrow]'" in result.stderr.strip().splitlines()[-1]
