"""The parameters in the path and the query of a request, checked and refused with a reason.

A server decodes invalid UTF-8 into U+FFFD, which is a regular character: another key would be
looked up. So the bytes are checked as they were sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from logstate.changelog.stores.store_kind import BOUNDS, SPAN, StoreKind
from logstate.contracts.errors import LogstateError
from logstate.contracts.indexes import index_named
from logstate.contracts.serde import Serde
from logstate.contracts.setting_rules import positions
from logstate.contracts.stores import StoreSpec

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams as Query

#: parses the text of an element of a key
Element = Callable[[str], Any]
#: times, offsets and partition numbers are signed integers of eight bytes
_LARGEST = 2**63 - 1
#: a number with more digits is larger, and parsing thousands of digits takes long
_DIGITS_MAX = 19
_LATEST_MS = 2**62
_TIMES = ("start", "as_of", *SPAN)
#: that name an element of a key, or the first and the last one
_ELEMENTS = ("index", "map_key", "value", "lower", "upper")
_OF_READS = ("key", "at_least", "standbys", "max_age", *_TIMES)
#: parameters by kind of request
OF_KEYS = ("partition", *_ELEMENTS, *_OF_READS)
OF_RANGES = ("by", "value", "reverse", "lower", "upper", "limit", "continue", *_OF_READS)
OF_CHANGES = ("after", "from")
OF_TOPOLOGY = ("as", "width")
OF_TOPIC = ("limit",)
OF_READY = ("max_lag", "max_age")
_OFTEN = frozenset({"at_least"})
_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h)?")
_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
}


class BadRequestError(LogstateError):
    """The request is invalid."""


def check_text(path: bytes, query: bytes) -> None:
    """Raise BadRequestError if the path or the query is not UTF-8 after decoding."""
    for name, sent in (("path", path), ("query", query)):
        try:
            unquote_to_bytes(sent).decode()
        except UnicodeDecodeError as exc:
            raise BadRequestError(
                f"the {name} of the request is not UTF-8: {exc.reason} at byte {exc.start}. A key"
                " of other bytes is given as base64, with ?key=base64"
            ) from exc


def check_names(query: Query, known: Collection[str]) -> None:
    """Raise BadRequestError for an unknown parameter, and for one that is given twice.

    A client would misread a response that ignores a parameter.
    """
    for name in query:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0]}=?" if near else f"Known: {', '.join(sorted(known))}"
            raise BadRequestError(f"unknown query parameter {name!r:.100}. {hint}")
        given = query.getlist(name)
        if len(given) > 1 and name not in _OFTEN:
            raise BadRequestError(f"{name}= is given {len(given)} times; got {given[:3]!r:.200}")


def check_goes_on(query: Query, began: Query) -> None:
    """Raise BadRequestError if the request for the next page differs from the first one.

    A parameter that is left out keeps its value; the size of the page may change.
    """
    for name in query:
        if name in ("continue", "limit"):
            continue
        given, was = query.getlist(name), began.getlist(name)
        if given != was:
            before = f"was {was!r:.100}" if was else "was not given"
            raise BadRequestError(
                f"{name}= {before} for the first page, and is {given!r:.100} now: restart the scan"
            )


def number(query: Query, name: str, *, least: int = 0) -> int | None:
    """Return a whole number of at least ``least``; None if it is not given."""
    given = query.get(name)
    return None if given is None else whole(name, given, least)


def number_or(default: int, query: Query, name: str, *, least: int = 0) -> int:
    """Return a whole number of at least ``least``; the default if it is not given."""
    given = number(query, name, least=least)
    return default if given is None else given


def whole(name: str, given: str, least: int = 0) -> int:
    """Return the number in a text; raise BadRequestError."""
    digits = given.removeprefix("-")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > _DIGITS_MAX:
        raise BadRequestError(f"{name} must be a whole number; got {given!r:.100}")
    found = int(given)
    if not least <= found <= _LARGEST:
        raise BadRequestError(f"{name} must be at least {least} and below 2**63; got {found}")
    return found


def duration(query: Query, name: str) -> timedelta | None:
    """Return a number of seconds, or a number with its unit; None if it is not given."""
    given = query.get(name)
    if given is None:
        return None
    found = _DURATION.fullmatch(given)
    with suppress(OverflowError):
        if found is not None:
            return int(found[1]) * _UNITS[found[2] or "s"]
    raise BadRequestError(
        f"{name} must be a number of seconds, or a number with its unit, as 500ms, 30s, 5m or 1h;"
        f" got {given!r:.100}"
    )


def flag(query: Query, name: str) -> bool:
    """Return true or false; false if it is not given."""
    given = query.get(name, "false")
    if given not in ("true", "false"):
        raise BadRequestError(f"{name} must be true or false; got {given!r:.100}")
    return given == "true"


def is_base64(query: Query) -> bool:
    """Return whether keys are the base64 of their bytes."""
    given = query.get("key")
    if given not in (None, "base64"):
        raise BadRequestError(f"key must be base64, or be left out; got {given!r:.100}")
    return given is not None


def at_least(query: Query) -> dict[str, int]:
    """Return ``topic-partition`` -> the greatest offset that a response must include."""
    found: dict[str, int] = {}
    for one in query.getlist("at_least"):
        partition, _, offset = one.rpartition(":")
        if not partition or not offset.isdecimal():
            raise BadRequestError(f"at_least must be topic-partition:offset; got {one!r:.100}")
        found[partition] = max(found.get(partition, 0), whole("the offset of at_least", offset))
    for trouble in positions("at_least", found):
        raise BadRequestError(trouble)
    return found


def span(query: Query) -> tuple[int, int]:
    """Return ``from`` and ``to``: milliseconds, both inclusive."""
    return number_or(0, query, "from"), number_or(_LATEST_MS, query, "to")


def _check_meaning(
    kind: StoreKind, query: Query, meant: Collection[str], *, is_range: bool = False
) -> None:
    """Raise BadRequestError for a time or an element that has no meaning for such a read.

    If it were ignored, the client would misread a response with rows of all times.
    """
    for name in _TIMES if is_range else (*_TIMES, *_ELEMENTS):
        if name in query and name not in meant:
            what, names = ("times", _TIMES) if name in _TIMES else ("elements", _ELEMENTS)
            such = ", ".join(one for one in meant if one in names)
            of_such = f"its {what} are {such}" if such else f"it has no {what}"
            raise BadRequestError(
                f"{name}= has no meaning for this read of a {kind.name} store: {of_such}"
            )


def _times(query: Query, names: tuple[str, ...], element: Element = str) -> tuple[Any, ...]:
    """Return the given times or elements of a read, and the defaults of a span."""
    if names == SPAN:
        return span(query)
    if names == BOUNDS:
        return tuple(element(query[name]) if name in query else None for name in names)
    if any(name in _ELEMENTS for name in names):
        return tuple(element(query[name]) for name in names if name in query)
    found = (number(query, name) for name in names)
    return tuple(time for time in found if time is not None)


def read_of_key(kind: StoreKind, query: Query, element: Element) -> tuple[str, tuple[Any, ...]]:
    """Return the read of a request for a key; ``element`` parses the text of an element."""
    reads = kind.key_reads
    _check_meaning(kind, query, [name for times in reads.values() for name in times])
    *others, default = reads
    for read in others:
        times = _times(query, reads[read], element)
        if times and any(name in query for name in reads[default]):
            raise BadRequestError(
                f"{reads[read][0]}= selects one"
                f" {'element' if reads[default] == BOUNDS else 'window'},"
                f" {'= and '.join(reads[default])}= those of a span: give one or the other"
            )
        if times:
            return read, times
    return default, _times(query, reads[default], element)


def read_of_index(
    spec: StoreSpec, query: Query, value_of: Callable[[str, Serde[Any]], Any]
) -> tuple[str, tuple[Any, ...]] | None:
    """Return the read of a request for rows by an index; None for a read by keys.

    ``value_of`` parses the text of an indexed value.
    """
    name = query.get("by")
    if name is None:
        for only in ("value", "reverse"):
            if only in query:
                raise BadRequestError(f"{only}= is for a read by an index: give by= with its name")
        return None
    one = index_named(spec.name, spec.indexes, name)
    given = {
        bound: value_of(query[bound], one.serde)
        for bound in ("value", "lower", "upper")
        if bound in query
    }
    if "value" not in given:
        bounds = given.get("lower"), given.get("upper")
        return "by_range", (name, *bounds, flag(query, "reverse"))
    if len(given) > 1 or "reverse" in query:
        raise BadRequestError(
            "value= selects one value, lower=, upper= and reverse= are of a range"
        )
    return "by", (name, given["value"])


def read_of_range(
    kind: StoreKind, keys: tuple[Any, Any], query: Query
) -> tuple[str, tuple[Any, ...]]:
    """Return the read of a request for rows; ``keys``: the first and the last, None = open."""
    read, times = kind.range_read
    _check_meaning(kind, query, times, is_range=True)
    return read, (*keys, *_times(query, times))
