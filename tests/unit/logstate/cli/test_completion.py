"""The script that ``logstate completion`` prints, in a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from logstate.cli.main import app as command


@pytest.mark.slow
def test_bash_completes_a_command_that_was_begun(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    script = CliRunner().invoke(command, ["completion", "bash"]).stdout
    called = "from logstate.cli.main import main; main()"
    program = f"#!{sys.executable}\n{called}\n"
    (tmp_path / "logstate").write_text(program, encoding="utf-8")
    (tmp_path / "logstate").chmod(0o755)
    asked = f"{script}\nCOMP_WORDS=(logstate sta) COMP_CWORD=1\n_logstate_completion logstate\n"
    answer = subprocess.run(
        [bash, "-c", f'{asked}printf "%s " "${{COMPREPLY[@]}}"'],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert answer.stdout.split() == ["status"], answer.stderr


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["zsh", "fish", "powershell"])
def test_other_shells_have_a_script_too(shell: str) -> None:
    answer = CliRunner().invoke(command, ["completion", shell])
    assert answer.exit_code == 0
    assert "_LOGSTATE_COMPLETE" in answer.stdout
