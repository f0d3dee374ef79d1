"""The commands of a block of shell, checked without running them.

A command of this project has to be there, with its subcommands and options; a package has to have
the extras that are named, a module to exist.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Any

from tests.pages import ROOT

#: what may stand between two commands of a line
_BETWEEN = {"&&", "||", "|", ";", "&"}
_REDIRECTION = re.compile(r"[0-9]?(>{1,2}|<).*")
#: programs of a shell that need no check
_SHELL = {"cat", "cd", "cp", "curl", "eval", "export", "grep", "jq", "kill", "ls", "mkdir", "sleep"}


def commands(text: str, *, is_console: bool) -> Iterator[str]:
    """The commands of a block, with continued lines joined; of a console those after ``$``."""
    for line in text.replace("\\\n", " ").splitlines():
        command = line.strip()
        if is_console:
            if not command.startswith("$ "):
                continue
            command = command[2:]
        if command and not command.startswith("#"):
            yield command


def problems(command: str) -> Iterator[str]:
    """The problems of a command; none if every part of it exists."""
    command = re.sub(r"\$\(([^()]*)\)", r"\1", command) if "$(" in command else command
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word not in _BETWEEN:
            words.append(word)
            continue
        yield from _of_one(words)
        words = []


def _of_one(words: list[str]) -> Iterator[str]:
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        value = words[0].partition("=")[2]
        words = words[1:] if not value.startswith("logstate") else ["logstate", *words[1:]]
    if not words:
        return
    program, *arguments = words
    check = _CHECKS.get(program)
    if check is not None:
        yield from check(arguments)
    elif program not in _SHELL:
        yield f"{program!r} is not a command that this test knows: run it, or add `no-run: reason`"


def _logstate(arguments: list[str]) -> Iterator[str]:
    end = next((n for n, one in enumerate(arguments) if _REDIRECTION.fullmatch(one)), None)
    given, context = arguments[:end], None
    command = _command_line()
    while hasattr(command, "resolve_command") and given and not given[0].startswith("-"):
        context = command.context_class(command, info_name="logstate", parent=context)
        if command.get_command(context, given[0]) is None:
            yield f"logstate has no command {' '.join(given[:1])!r}"
            return
        _, command, given = command.resolve_command(context, given)
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    known |= {"--help", "--version", "--install-completion", "--show-completion"}
    for option in given:
        name = option.partition("=")[0]
        if name.startswith("-") and name != "-" and name not in known:
            yield f"logstate {command.name} has no option {name}"


@cache
def _command_line() -> Any:
    import typer.main

    from logstate.cli.main import app

    return typer.main.get_command(app)


def _pip(arguments: list[str]) -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extras in re.findall(r"logstate\[([\w,-]+)\]", " ".join(arguments)):
        for extra in extras.split(","):
            if extra not in project["optional-dependencies"]:
                yield f"logstate has no extra {extra!r}"


def _python(arguments: list[str]) -> Iterator[str]:
    if arguments[:1] == ["-m"] and arguments[1:2] and arguments[1].partition(".")[0] != "venv":
        name = arguments[1]
        try:
            found = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            found = None
        if found is None:
            yield f"there is no module {name}"
        elif name == "logstate":
            yield from _logstate(arguments[2:])


def _dev(arguments: list[str]) -> Iterator[str]:
    text = (ROOT / ".ci" / "dev.py").read_text(encoding="utf-8")
    if arguments and f"\ndef {arguments[0]}(arguments" not in text:
        yield f"./dev has no command {arguments[0]!r}"
    if arguments[:1] == ["run"]:
        yield from _of_one(arguments[1:])


_CHECKS = {
    "logstate": _logstate,
    "pip": _pip,
    "python": _python,
    "./dev": _dev,
    "pytest": lambda _: iter(()),
}
