"""``logstate completion``: what makes a shell complete commands and options."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]


class Shell(StrEnum):
    """Those that typer writes scripts for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell.")]) -> None:
    """Print the script that makes a shell complete commands and options.

    bash: eval "$(logstate completion bash)". To have it in every shell that is opened from now on:
    logstate --install-completion.
    """
    script = get_completion_script(
        prog_name="logstate", complete_var="_LOGSTATE_COMPLETE", shell=shell.value
    )
    print(script)
