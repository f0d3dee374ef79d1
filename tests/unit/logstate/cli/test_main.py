"""The table of commands, and what the command line imports to show it."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from logstate.cli.main import COMMANDS, app

#: libraries and packages that take long to import
HEAVY = {
    *("confluent_kafka", "rocksdict", "pydantic", "msgspec", "asyncio", "rich", "pyarrow"),
    *("logstate.topology", "logstate.changelog", "logstate.kafka", "logstate.app"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_of_a_command_is_the_beginning_of_its_help(name: str) -> None:
    found = COMMANDS[name].loaded()
    text = found.info.help if isinstance(found, typer.Typer) else inspect.getdoc(found)
    assert text.split("\n\n")[0].replace("\n", " ") == COMMANDS[name].summary


def test_an_unknown_command_is_answered_with_a_similar_one() -> None:
    answer = CliRunner().invoke(app, ["statsu"])
    assert answer.exit_code == 2
    assert "Did you mean 'status'?" in answer.output


def imported(arguments: list[str], **environment: str) -> set[str]:
    """The modules that a call of the command imports."""
    program = (
        "import sys\n"
        "sys.argv[0] = 'logstate'\n"
        "from logstate.cli.main import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    print(*sys.modules, file=sys.stderr)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    assert answer.stdout
    return set(answer.stderr.split())


def test_the_version_and_the_help_import_neither_the_engine_nor_its_libraries() -> None:
    assert not imported(["--version"]) & HEAVY
    assert not imported(["--help"]) & (HEAVY - {"rich", "pydantic"})  # typer's own


@pytest.mark.parametrize("line", ["logstate ", "logstate sta", "logstate --ver"])
def test_the_completion_of_a_command_imports_neither_the_engine_nor_its_libraries(
    line: str,
) -> None:
    words = {"COMP_WORDS": line, "COMP_CWORD": "1", "_LOGSTATE_COMPLETE": "complete_bash"}
    assert not imported([], **words) & (HEAVY - {"pydantic"})  # typer validates with it
