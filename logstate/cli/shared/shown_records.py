"""Texts for values, times and windows of records, in the output of commands."""

from __future__ import annotations

import datetime
from typing import Any

from logstate.cli.shared.printing import finite, json_text, printable


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


def date_of(time_ms: int | None) -> str:
    """Return an event time for people, in UTC.

    >>> date_of(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    """
    if time_ms is None:
        return "?"
    try:
        moment = datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def window_in_words(window: tuple[int, int | None] | None) -> str:
    """Return ``[start, end]`` as dates; empty without a window."""
    return "" if window is None else f"[{date_of(window[0])}, {date_of(window[1])}]"
