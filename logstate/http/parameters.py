"""What a request asks for, out of its path and its query: checked here, refused with the reason.

A server decodes what is no UTF-8 into U+FFFD, which is a character like others: another key would
be looked up. So bytes are looked at as they were sent.
"""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from logstate.contracts.errors import LogstateError
from logstate.contracts.setting_rules import positions

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams as Query

#: times, offsets and numbers of partitions are signed integers of eight bytes
_LARGEST = 2**63 - 1
#: a number of more digits is none of these, and reading one of thousands takes long
_DIGITS_MAX = 19
_LATEST_MS = 2**62
_SPAN = ("from", "to")
_TIMES = ("start", "as_of", *_SPAN)
_OF_READS = ("key", "at_least", "standbys", *_TIMES)
#: what there is to ask for, by what is asked
OF_KEYS = ("partition", *_OF_READS)
OF_RANGES = ("lower", "upper", "limit", "continue", *_OF_READS)
OF_CHANGES = ("after", "from")
OF_TOPOLOGY = ("as",)
_OFTEN = frozenset({"at_least"})


class BadRequestError(LogstateError):
    """What was asked cannot be understood."""


def check_text(path: bytes, query: bytes) -> None:
    """Raises BadRequestError where either is no UTF-8 once it is decoded."""
    for name, sent in (("path", path), ("query", query)):
        try:
            unquote_to_bytes(sent).decode()
        except UnicodeDecodeError as exc:
            raise BadRequestError(
                f"the {name} of the request is no UTF-8: {exc.reason} at byte {exc.start}. A key of"
                " other bytes is given as base64, with ?key=base64"
            ) from exc


def check_names(query: Query, known: Collection[str]) -> None:
    """Raise BadRequestError for an unknown parameter, and for one that is given twice.

    An answer that ignores a parameter would be taken for an answer to the whole request.
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
    """Raises BadRequestError where the next page is asked for otherwise than the first one was.

    What is not said again is as it was; a page may be longer or shorter than the one before.
    """
    for name in query:
        if name in ("continue", "limit"):
            continue
        given, was = query.getlist(name), began.getlist(name)
        if given != was:
            told = f"was {was!r:.100}" if was else "was not given"
            raise BadRequestError(
                f"{name}= {told} where these pages began, and is {given!r:.100} now: begin anew"
            )


def number(query: Query, name: str, *, least: int = 0) -> int | None:
    """A whole number of at least ``least``; None where it is not given."""
    given = query.get(name)
    return None if given is None else whole(name, given, least)


def number_or(default: int, query: Query, name: str, *, least: int = 0) -> int:
    """A whole number of at least ``least``; the default where it is not given."""
    given = number(query, name, least=least)
    return default if given is None else given


def whole(name: str, given: str, least: int = 0) -> int:
    """The number that a text is; raises BadRequestError."""
    digits = given.removeprefix("-")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > _DIGITS_MAX:
        raise BadRequestError(f"{name} must be a whole number; got {given!r:.100}")
    found = int(given)
    if not least <= found <= _LARGEST:
        raise BadRequestError(f"{name} must be at least {least} and below 2**63; got {found}")
    return found


def flag(query: Query, name: str) -> bool:
    """True or false; false where it is not given."""
    given = query.get(name, "false")
    if given not in ("true", "false"):
        raise BadRequestError(f"{name} must be true or false; got {given!r:.100}")
    return given == "true"


def is_base64(query: Query) -> bool:
    """Whether keys are the base64 of their bytes."""
    given = query.get("key")
    if given not in (None, "base64"):
        raise BadRequestError(f"key must be base64, or not be given; got {given!r:.100}")
    return given is not None


def at_least(query: Query) -> dict[str, int]:
    """``topic-partition`` -> the greatest offset that an answer must have reached."""
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
    """``from`` and ``to``: milliseconds, both inclusive."""
    return number_or(0, query, "from"), number_or(_LATEST_MS, query, "to")


def _check_meaning(kind: str, query: Query, meant: Collection[str]) -> None:
    """Raises BadRequestError for a time that means nothing for such a read.

    Passed over, an answer of all times would be taken for one of the time that was asked for.
    """
    for name in _TIMES:
        if name in query and name not in meant:
            of_such = (
                f"times here are {', '.join(meant)}" if meant else "it has no times to ask for"
            )
            raise BadRequestError(
                f"{name}= means nothing for this read of a {kind} store: {of_such}"
            )


def read_of_key(kind: str, query: Query) -> tuple[str, tuple[Any, ...]]:
    """Which read a request for a key means."""
    of_kind = {"versioned": ("as_of",), "session": _SPAN}.get(kind, ())
    _check_meaning(kind, query, ("start", *_SPAN) if kind.endswith("window") else of_kind)
    if kind.endswith("window"):
        start = number(query, "start")
        if start is None:
            return "fetch_range", span(query)
        if any(name in query for name in _SPAN):
            raise BadRequestError(
                "start= asks for one window, from= and to= for those of a span: give either"
            )
        return "fetch", (start,)
    if kind == "session":
        return "find_sessions", span(query)
    as_of = number(query, "as_of")
    return "get", () if as_of is None else (as_of,)


def read_of_range(kind: str, keys: tuple[Any, Any], query: Query) -> tuple[str, tuple[Any, ...]]:
    """Which read a request for rows means; ``keys``: the first and the last, None = open."""
    _check_meaning(kind, query, _SPAN if kind.endswith(("window", "session")) else ())
    if kind.endswith("window"):
        return "fetch_key_range", (*keys, *span(query))
    if kind == "session":
        return "find_sessions_of_key_range", (*keys, *span(query))
    return "range", keys
