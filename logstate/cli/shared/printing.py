"""Print the results of commands: as text and tables, and as JSON for programs.

Results go to standard output, progress and errors to standard error.

Keys, values, and names come from topics that anyone may write to. A terminal obeys the control
characters in them: they could clear the screen, change its title, or hide a row. So all output goes
through this module, which escapes such characters.
"""

from __future__ import annotations

import json
import math
import re
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from logstate.contracts.clock import date_of

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table


#: the width of tables in a pipe or a file
_WIDTH = 160
#: control characters, marks that change the direction of text, line separators, lone surrogates
_UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""Return the text in one line, with control and unprintable characters escaped.

    >>> print(printable("caf\u00e9\x1b[2J\n"))
    café\x1b[2J\n
    """
    return _UNPRINTABLE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def print_text(text: object = "", *, end: str = "\n", is_error: bool = False) -> None:
    """Print text at once; its line breaks are kept.

    ``is_error`` prints to standard error.
    """
    shown = "\n".join(map(printable, str(text).split("\n")))
    print(shown, end=end, file=sys.stderr if is_error else sys.stdout, flush=True)


class _Printable:
    """The rendered cells of a table, without control characters."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.segment import Segment

        for text, style, control in console.render(self._table, options):
            yield Segment(text if text == "\n" else printable(text), style, control)


def print_table(table: Table) -> None:
    """Print a table, as wide as the terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _WIDTH
    Console(width=width).print(_Printable(table), markup=False)


def print_json(value: object) -> None:
    """Print one line, and flush it: the next line may come much later."""
    print(json_text(value), flush=True)


def json_text(value: object) -> str:
    """Return a value as JSON. NaN and infinity, which JSON does not have, become strings.

    They are named as in Protobuf's JSON: "NaN", "Infinity", and "-Infinity".

    >>> json_text({"mean": float("nan"), "count": 0})
    '{"mean": "NaN", "count": 0}'
    """
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:  # a number that is not finite
        return json.dumps(finite(value), allow_nan=False)


def finite(value: Any) -> Any:
    """Return plain data with strings in place of the numbers that JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {finite(key): finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return value


def fail(message: str, status: int = 1) -> NoReturn:
    """Exit with an error message of one sentence, without a traceback."""
    print_text(f"logstate: {message}", is_error=True)
    sys.exit(status)


def in_words(value: Any) -> str:
    """Return a value in one line: text without quotes, everything else as JSON."""
    import msgspec

    if isinstance(value, str):
        return printable(value)
    if isinstance(value, float):
        return str(value)
    try:
        return printable(msgspec.json.encode(finite(value)).decode())
    except UnicodeEncodeError:  # a lone surrogate, which JSON as ASCII can write
        return json_text(value)


def window_in_words(window: tuple[int, int | None] | None) -> str:
    """Return ``[start, end]`` as dates; empty without a window."""
    return "" if window is None else f"[{date_of(window[0])}, {date_of(window[1])}]"
