"""Checks of what the user hands in, where a mistake would otherwise show only at run time.

Every message contains the expected and the actual value, the reason, and the remedy;
every error names the user's file and line.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.declaring.plain_functions import check_plain
from logstate.topology.declaring.windows import (
    CountWindows,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    UnlimitedWindows,
    Windows,
)

#: partitions are 32 bits on the wire
PARTITIONS_MAX = 2**31 - 1
_RESETS = ("earliest", "latest", "none")


def check_emit(emit: object, windows: object | None) -> None:
    """Refuse an ``emit`` that does not exist, or not for these windows (None: there are none)."""
    if emit not in ("update", "commit", "close", "delta"):
        raise declaration_error(
            f'emit must be "update", "commit", "close" or "delta", found {emit!r}: every change,'
            " the last per key and commit, final results only, or what has been added to each row"
            " since the commit before."
        )
    if emit != "close":
        return
    if windows is None:
        raise declaration_error(
            'emit="close" sends final results when a window closes, but this aggregation has no'
            ' windows. Add .windowed_by(...), or use emit="update" or "commit".'
        )
    if isinstance(windows, UnlimitedWindows):
        raise declaration_error(
            'emit="close" cannot be used with UnlimitedWindows: they never close. Use "update" or'
            ' "commit".'
        )


def check_windows(windows: object) -> None:
    """Refuse objects that are not windows, join windows included."""
    if isinstance(windows, CountWindows):
        raise declaration_error(
            f"{windows!r} count the values of one grouped stream, and a cogroup has several, each"
            " with its own values. merge() the streams before group_by_key(), or use windows in"
            " time."
        )
    if not isinstance(windows, Windows | SlidingWindows | SessionWindows):
        raise declaration_error(
            f"windowed_by takes windows, found {windows!r}. Give an object such as"
            " TumblingWindows(size=...), SessionWindows(gap=...), or one of a subclass of Windows."
        )
    if isinstance(windows, Windows):
        _check_own_windows(windows)


def _check_own_windows(windows: Windows) -> None:
    """Refuse a user's own class of windows without a length, or with one that is not in ms."""
    whose = f"the windows {type(windows).__qualname__}"
    for name, least in (("size_ms", 1), ("grace_ms", 0)):
        given = getattr(windows, name, None)
        check_count(given, f"{name} of {whose}", least=least, may_be_left_out=False)
    check_flags(whose, varies=windows.varies)
    check_plain(windows.windows_for, f"windows_for() of {whose}", yields=True)


def check_join_windows(windows: object) -> None:
    """Refuse what does not say how far apart records may be."""
    if not isinstance(windows, JoinWindows):
        raise declaration_error(
            f"windows= of a stream-stream join must be JoinWindows, found {windows!r}: a join asks"
            " how far two records are apart, not which window one is in. Give"
            " JoinWindows(before=..., after=..., grace=...)."
        )


def check_kind(given: object, kind: type, what: str, expected: str, hint: str) -> None:
    """Refuse what this operator does not take."""
    if not isinstance(given, kind):
        raise declaration_error(f"{what} takes {expected}, found {given!r}. {hint}")


def check_options(options: dict[str, Any], shape: type, what: str) -> None:
    """Refuse keyword options that belong to another kind of operator; ``shape`` has its own."""
    known = shape.__annotations__.keys()
    if unknown := sorted(options.keys() - known):
        raise declaration_error(
            f"{what} has no option {', '.join(unknown)}. It takes {', '.join(sorted(known))}."
        )


def check_store(store: object) -> None:
    """Refuse a store that is not declared."""
    if not isinstance(store, StoreSpec):
        raise declaration_error(
            f"A store is added by its declaration, found {store!r}: its name alone does not say"
            " what the store contains. Give key_value_store(name, key, value), window_store(...),"
            " session_store(...) or versioned_store(...)."
        )


def check_count(
    count: object,
    what: str,
    *,
    least: int = 1,
    most: int | None = None,
    may_be_left_out: bool = True,
) -> None:
    """Refuse a count below ``least`` or above ``most``."""
    if count is None and may_be_left_out:
        return
    if most is not None and isinstance(count, int) and count > most:
        raise declaration_error(
            f"{what} must be at most {most}, found {count}. Give a smaller number."
        )
    if not isinstance(count, int) or isinstance(count, bool) or count < least:
        raise declaration_error(
            f"{what} must be a whole number of at least {least}, found {count!r}. Give a number"
            f"{', or leave it out for the default' if may_be_left_out else ''}."
        )


def check_flags(whose: str, **given: object) -> None:
    """Refuse what merely counts as true or false: ``"false"`` counts as true, None as false."""
    for name, flag in given.items():
        if not isinstance(flag, bool):
            raise declaration_error(
                f"{name}= of {whose} must be True or False, found {flag!r}. A text counts as true,"
                " whatever it says: compare it first."
            )


def check_file(file: object) -> None:
    """Refuse what cannot be printed to, such as the name of a file."""
    if file is not None and not callable(getattr(file, "write", None)):
        raise declaration_error(
            f"file= of print() must be an open text file, found {file!r}: lines are written to it."
            ' Give open(..., "a"), or leave it out for standard output.'
        )


def check_key_is_of_mapper(mapper: object, key: object) -> None:
    """Refuse a serde for keys that nothing makes."""
    if mapper is None and key is not None:
        raise declaration_error(
            "to_stream() without a mapper keeps the table's keys, and key= says what a mapper"
            " makes. Leave key= out, or give a mapper."
        )


def check_offset_reset(offset_reset: object) -> None:
    """Refuse a start that does not exist."""
    if offset_reset is None or offset_reset in _RESETS:
        return
    if isinstance(offset_reset, timedelta) and offset_reset >= timedelta(0):
        return
    raise declaration_error(
        f"offset_reset must be one of {', '.join(_RESETS)} or a timedelta, found {offset_reset!r}:"
        " it says where in the log to start when nothing is committed, a timedelta how far back."
    )
