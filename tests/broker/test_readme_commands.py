"""The README's example on Kafka: its program and its commands, as they are, on a real broker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from logstate.local_broker.broker import LocalBroker
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
#: the program, the commands, and what the program prints
EXAMPLE = re.compile(
    r"## Example on Kafka\n\nSave this as `(\S+)`:\n\n```python no-run\n(.*?)```\n"
    r".*?```sh\n(.*?)```\n.*?\n\n((?:    [^\n]*\n)+)",
    re.DOTALL,
)

#: commands that are not typed here: the packages are installed, and the test starts the broker
MACHINE = r"pip install |export |logstate broker "


@pytest.mark.slow
def test_the_example_prints_what_the_readme_says_and_again_at_its_second_start(
    tmp_path: Path,
) -> None:
    found = EXAMPLE.search(README)
    assert found is not None, "the README has lost its example on Kafka"
    name, program, commands, expected = found.groups()
    (tmp_path / name).write_text(program, encoding="utf-8")
    (tmp_path / "bin").mkdir()
    for command, module in (("logstate", "-m logstate "), ("python", "")):
        script = tmp_path / "bin" / command
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module}"$@"\n', encoding="utf-8")
        script.chmod(0o755)
    steps = [line for line in commands.splitlines() if not re.match(MACHINE, line)]
    (export,) = (line for line in commands.splitlines() if line.startswith("export "))
    steps.insert(0, export.replace("LOGSTATE_BOOTSTRAP=$(logstate broker start) ", ""))
    run = next(line for line in steps if line.startswith("python "))
    steps.insert(steps.index(run) + 1, run)  # the second start has nothing to do
    shown = "\n".join(f"echo '> {step[:9]}'\n{step}" for step in steps)
    with LocalBroker.start() as broker:
        path = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        answer = subprocess.run(
            ["sh", "-e", "-c", shown],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, **path, "LOGSTATE_BOOTSTRAP": broker.bootstrap},
            timeout=PATIENCE_S,
        )
    assert answer.returncode == 0, (answer.stdout, answer.stderr)
    printed = [part.partition("\n")[::2] for part in answer.stdout.split("> ")]
    first, second = (text for step, text in printed if step.startswith("python"))
    *rows, commits = (line.removeprefix("    ") for line in expected.splitlines(keepends=True))
    for text in (first, second):
        assert text.startswith("".join(rows)), answer.stdout
        last = text.splitlines()[-1]
        assert re.sub(r"\d+}", "N}", last) == re.sub(r"\d+}", "N}", commits.strip())
    (decoded,) = (text for step, text in printed if step.startswith("logstate") and "@" in text)
    assert re.findall(r"(ada|bob)  (\d+)$", decoded, re.MULTILINE)[-1] in {
        ("ada", "375"),
        ("bob", "900"),
    }
    assert "guessed" not in decoded
