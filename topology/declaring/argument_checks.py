"""Checks of what the user hands in, where a mistake would otherwise show only at run time.

Every message says what was asked for, what was found, why that cannot work, and what to give
instead; every error names the user's file and line.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from logstate.contracts.errors import TopologyError
from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.declaring.windows import (
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    UnlimitedWindows,
    Windows,
    to_ms,
)

_RESETS = ("earliest", "latest", "none")


def check_emit(emit: object, windows: object | None) -> None:
    """Refuse an ``emit`` that does not exist, or not for these windows (None: there are none)."""
    if emit not in ("update", "commit", "close"):
        raise TopologyError(
            f'emit must be "update", "commit" or "close", found {emit!r}: every change, the last'
            " per key and commit, or final results only.",
            declared_at=declaration_site(),
        )
    if emit != "close":
        return
    if windows is None:
        raise TopologyError(
            'emit="close" sends final results when a window closes, but this aggregation has no'
            ' windows. Add .windowed_by(...), or use emit="update" or "commit".',
            declared_at=declaration_site(),
        )
    if isinstance(windows, UnlimitedWindows):
        raise TopologyError(
            'emit="close" cannot be used with UnlimitedWindows: they never close. Use "update" or'
            ' "commit".',
            declared_at=declaration_site(),
        )


def check_windows(windows: object) -> None:
    """Refuse what is no windows, join windows among it."""
    if not isinstance(windows, Windows | SlidingWindows | SessionWindows):
        raise TopologyError(
            f"windowed_by takes windows, found {windows!r}. Give an object such as"
            " TumblingWindows(size=...), SessionWindows(gap=...), or one of a subclass of Windows.",
            declared_at=declaration_site(),
        )


def check_join_windows(windows: object) -> None:
    """Refuse what does not say how far apart records may be."""
    if not isinstance(windows, JoinWindows):
        raise TopologyError(
            f"windows= of a stream-stream join must be JoinWindows, found {windows!r}: a join asks"
            " how far two records are apart, not which window one is in. Give"
            " JoinWindows(before=..., after=..., grace=...).",
            declared_at=declaration_site(),
        )


def check_kind(given: object, kind: type, what: str, expected: str, hint: str) -> None:
    """Refuse what this operator does not take."""
    if not isinstance(given, kind):
        raise TopologyError(
            f"{what} takes {expected}, found {given!r}. {hint}", declared_at=declaration_site()
        )


def check_options(options: dict[str, Any], known: set[str], what: str) -> None:
    """Refuse keyword options that belong to another kind of operator."""
    if unknown := sorted(options.keys() - known):
        raise TopologyError(
            f"{what} has no option {', '.join(unknown)}. It takes {', '.join(sorted(known))}.",
            declared_at=declaration_site(),
        )


def check_store(store: object) -> None:
    """Refuse a store that is not declared."""
    if not isinstance(store, StoreSpec):
        raise TopologyError(
            f"A store is added by its declaration, found {store!r}: its name alone does not say"
            " what is in it. Give key_value_store(name, key, value), window_store(...),"
            " session_store(...) or versioned_store(...).",
            declared_at=declaration_site(),
        )


def check_count(count: object, what: str) -> None:
    """Refuse a count below one."""
    if count is None:
        return
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise TopologyError(
            f"{what} must be a whole number of at least 1, found {count!r}. Leave it out for the"
            " default.",
            declared_at=declaration_site(),
        )


def check_offset_reset(offset_reset: object) -> None:
    """Refuse a start that does not exist."""
    if offset_reset is None or offset_reset in _RESETS:
        return
    if isinstance(offset_reset, timedelta) and offset_reset >= timedelta(0):
        return
    raise TopologyError(
        f"offset_reset must be one of {', '.join(_RESETS)} or a timedelta, found {offset_reset!r}:"
        " it says where in the log to start when nothing is committed, a timedelta how far back.",
        declared_at=declaration_site(),
    )


def duration_ms(duration: timedelta, what: str, *, at_least: int = 0) -> int:
    """A duration in whole milliseconds that is not too short."""
    ms = to_ms(duration, what)
    if ms < at_least:
        raise TopologyError(
            f"{what} must be at least {at_least} ms, found {ms} ms. Give a longer timedelta.",
            declared_at=declaration_site(),
        )
    return ms
