"""The tutorial, with the packages of this environment: its files, and its commands in their order.

`python -m tests.campaigns.tutorial` does the same in an environment that pip fills.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from logstate.local_broker.jars import cache_directory
from tests import tutorial
from tests.pages import ROOT
from tests.patience import PATIENCE_S


@pytest.mark.slow
def test_the_commands_of_the_tutorial_print_what_it_shows(tmp_path: Path) -> None:
    home, programs, work = (tmp_path / name for name in ("home", "bin", "work"))
    for folder in (home, programs, work):
        folder.mkdir()
    for command, module in (("logstate", "-m logstate "), ("python", "")):
        script = programs / command
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module}"$@"\n', encoding="utf-8")
        script.chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    variables = {**os.environ, "HOME": str(home), "PATH": path, "PYTHONPATH": str(ROOT)}
    variables["LOGSTATE_CACHE_DIR"] = str(cache_directory())
    variables.pop("LOGSTATE_BOOTSTRAP", None)
    steps = tutorial.steps(with_spark=False, without=lambda line: line.startswith("pip install"))

    seconds = tutorial.run(work, steps, variables, timeout_s=2 * PATIENCE_S)

    assert len(seconds) == len(steps) > 6
