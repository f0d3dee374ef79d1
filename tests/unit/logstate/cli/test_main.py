"""The table of commands, and what the command line imports to show it."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from logstate.cli.main import COMMANDS, app

#: defaults of the application and the brokers
DEFAULTS = ("LOGSTATE_APPLICATION", "LOGSTATE_BOOTSTRAP")
#: a key may look like an option
TAKES_ANYTHING = {"get", "produce"}
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


def completing(line: str) -> dict[str, str]:
    """The environment in which bash asks for the completions of a line."""
    words = str(len(line.split(" ")) - 1)
    return {"COMP_WORDS": line, "COMP_CWORD": words, "_LOGSTATE_COMPLETE": "complete_bash"}


def functions() -> dict[str, Any]:
    """Every command by its words."""
    found = {}
    for name, one in COMMANDS.items():
        loaded = one.loaded()
        if isinstance(loaded, typer.Typer):
            for info in loaded.registered_commands:
                found[f"{name} {info.name}"] = info.callback
        else:
            found[name] = loaded
    return found


@pytest.mark.parametrize("line", ["", "sta", "--ver", "run m:a --guarantee ", "get spent ada --"])
def test_a_completion_imports_neither_the_engine_nor_its_libraries(line: str) -> None:
    assert not imported([], **completing(f"logstate {line}")) & HEAVY


def test_the_options_of_no_command_need_the_engine_or_its_libraries() -> None:
    """The modules of all commands together, as one process imports them faster than many."""
    program = (
        "import sys\n"
        "from logstate.cli.main import COMMANDS, _built\n"
        "for name in COMMANDS:\n"
        "    _built(name)\n"
        "print(*sys.modules)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not set(answer.stdout.split()) & HEAVY


@pytest.mark.parametrize("words", functions())
def test_a_completion_has_every_option_of_the_command(words: str) -> None:
    answer = CliRunner().invoke(
        app, [], env=completing(f"logstate {words} --"), prog_name="logstate"
    )
    helped = CliRunner().invoke(app, [*words.split(), "--help"], env={"COLUMNS": "200"}).output
    options, completed = set(re.findall(r"--[a-z-]+", helped)), set(answer.output.split())
    assert options >= completed >= {"--help"}
    for name in inspect.signature(functions()[words]).parameters:
        option = f"--{name.replace('_', '-')}"
        assert option not in options or option in completed


@pytest.mark.parametrize("words", [name for name in functions() if not name.startswith("broker ")])
def test_the_help_of_a_command_has_an_example_that_is_a_call_of_it(words: str) -> None:
    text = " ".join(str(inspect.getdoc(functions()[words])).split())
    example = re.search(r"Example: `logstate (.*?)`[. ]|eval \"\$\(logstate (.*?)\)\"", text)
    assert example is not None
    called = shlex.split((example[1] or example[2]).partition(" && ")[0])
    shown = "topology" if words == "topology show" else words
    assert called[: len(shown.split())] == shown.split()
    # Values are parsed, and the command ends before it does anything.
    answer = CliRunner().invoke(
        app, [*called, "--no-such-option"], env=dict.fromkeys(DEFAULTS, "x")
    )
    assert "No such option: --no-such-option" in answer.output or words in TAKES_ANYTHING
    for option in (word for word in called if word.startswith("--")):
        asked = CliRunner().invoke(app, [*words.split(), "--help"], env={"COLUMNS": "200"})
        assert option in asked.output
