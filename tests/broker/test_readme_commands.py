"""The README's example on Kafka: its program and its commands, as they are, on a real broker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.built_wheel import ROOT
from tests.campaigns.first_minutes.newcomer import environment_of_this_python, type_steps
from tests.campaigns.first_minutes.pages import Commands, steps_of

README = ROOT / "README.md"
#: what the program prints, below the commands
PRINTED = re.compile(
    r"## Example on Kafka\n.*?```sh run\n.*?```\n.*?\n\n((?:    [^\n]*\n)+)", re.DOTALL
)


@pytest.mark.slow
def test_the_example_prints_what_the_readme_says_and_again_at_its_second_start(
    tmp_path: Path,
) -> None:
    found = PRINTED.search(README.read_text(encoding="utf-8"))
    assert found is not None, "the README has lost its example on Kafka"
    file, commands = steps_of(README)
    assert isinstance(commands, Commands)
    # The packages are installed, and other brokers of this machine run.
    lines = commands.without("pip install").without("logstate broker stop").lines
    run = next(line for line in lines if line.startswith("python "))
    lines.insert(lines.index(run) + 1, run)  # the second start has nothing to do
    steps = [file, commands._replace(lines=lines)]

    typed = list(type_steps(steps, tmp_path, environment_of_this_python(tmp_path)))

    printed = ["".join(f"{text}\n" for _, text in one.printed) for one in typed]
    first, second = (text for text, line in zip(printed, lines, strict=True) if line == run)
    *rows, commits = (line.removeprefix("    ") for line in found[1].splitlines(keepends=True))
    for text in (first, second):
        assert text.startswith("".join(rows)), printed
        last = text.splitlines()[-1]
        assert re.sub(r"\d+}", "N}", last) == re.sub(r"\d+}", "N}", commits.strip())
    decoded = printed[-1]
    assert re.findall(r"(ada|bob)  (\d+)$", decoded, re.MULTILINE)[-1] in {
        ("ada", "375"),
        ("bob", "900"),
    }
    assert "guessed" not in decoded
