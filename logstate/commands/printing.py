"""How commands tell what they found: for people as text and tables, for programs as JSON.

Results go to standard output, progress and errors to standard error.
"""

from __future__ import annotations

import json
import sys
from typing import NoReturn

from rich.console import Console
from rich.table import Table

#: of what is printed into a pipe or a file
_WIDTH = 160


def print_table(table: Table) -> None:
    """A table, as wide as the terminal."""
    width = None if sys.stdout.isatty() else _WIDTH
    Console(width=width).print(table, markup=False)


def print_json(value: object) -> None:
    """One line, which whoever reads the pipe has at once: the next may come much later."""
    print(json.dumps(value), flush=True)


def fail(message: str, status: int = 1) -> NoReturn:
    """End with an error of one sentence, without a traceback."""
    print(f"logstate: {message}", file=sys.stderr)
    sys.exit(status)
