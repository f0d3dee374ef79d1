"""What a command says where nobody answers: one sentence, once."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.patience import PATIENCE_S


@pytest.mark.slow
@pytest.mark.parametrize("asked", [["tail", "orders"], ["status", "--application-id", "shop"]])
def test_an_address_where_nobody_answers_is_told_once(asked: list[str]) -> None:
    command = [sys.executable, "-m", "logstate", *asked, "--bootstrap", "127.0.0.1:1"]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert told.returncode == 1
    (line,) = told.stderr.splitlines()
    assert line.startswith("logstate: ")
    assert "127.0.0.1:1" in line
    assert "Connection refused" in line
