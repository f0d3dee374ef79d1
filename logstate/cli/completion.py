"""``logstate completion``: print the completion script of a shell."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]


class Shell(StrEnum):
    """The shells that typer has scripts for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell.")]) -> None:
    """Print the script that completes commands and options in a shell.

    bash: eval "$(logstate completion bash)". To install it permanently:
    logstate --install-completion.
    """
    script = get_completion_script(
        prog_name="logstate", complete_var="_LOGSTATE_COMPLETE", shell=shell.value
    )
    print(script)
