"""What mappers return where a record becomes a pair, or several records.

Python takes a lot for a sequence: a text is its letters, a dict its keys, a set its members in an
order that differs from process to process, and any of two is a pair. A mapper that returns one of
these was meant otherwise, so it is refused by name.

>>> pair_of("NO", lambda value: value, "map()")  # doctest: +ELLIPSIS
Traceback (most recent call last):
...
logstate.topology.declaring.plain_functions.ResultError: the mapper of map(), <lambda> at ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from logstate.topology.declaring.declaration_site import function_site
from logstate.topology.declaring.plain_functions import ResultError, refuse_unfinished

_TEXTS = (str, bytes, bytearray, memoryview)
_UNORDERED = (set, frozenset)


def pair_of(
    result: object, mapper: Callable[..., Any], what: str, parts: str = "(key, value)"
) -> Sequence[Any]:
    """Check a mapper's result that is not a tuple of two: another sequence of two, or refused."""
    if isinstance(result, Sequence) and not isinstance(result, _TEXTS) and len(result) == 2:
        return result
    refuse_unfinished(result, mapper, f"mapper of {what}")
    found = type(result).__name__
    if isinstance(result, tuple | list):
        found += f" of {len(result)}"
    raise ResultError(
        f"the mapper of {what}, {_site(mapper)}, gave {found} where a pair belongs: return a tuple"
        f" {parts}{'; to change values only, use map_values()' if what == 'map()' else ''}"
    )


def several_of(results: object, mapper: Callable[..., Any], what: str) -> Iterable[Any]:
    """Check a mapper's result that is not a list: another iterable of results, or refused."""
    is_record = isinstance(results, tuple) and hasattr(results, "_fields")
    if (
        isinstance(results, Iterable)
        and not is_record
        and not isinstance(results, (*_TEXTS, *_UNORDERED, Mapping))
    ):
        return results
    if not isinstance(results, Iterable):
        refuse_unfinished(results, mapper, f"mapper of {what}")
    found, kind = type(results).__name__, "pairs (key, value)" if what == "flat_map()" else "values"
    remedy = f"return a list of {kind}, or yield them"
    if results is None:
        remedy = "for no result return an empty list, or use a generator that yields nothing"
    elif isinstance(results, Mapping):
        remedy += "; of a dict the items() or the values()"
    elif isinstance(results, _UNORDERED):
        remedy += (
            "; a set has no order that would be the same when a record is read again: sorted()"
        )
    raise ResultError(
        f"the mapper of {what}, {_site(mapper)}, returned {found}, not a sequence of {kind}:"
        f" {remedy}"
    )


def items_of(value: Any) -> Iterable[Any]:
    """The items of a sequence; None has none.

    >>> items_of(["tea", "rum"]), items_of(None)
    (['tea', 'rum'], ())
    """
    return () if value is None else cast("Iterable[Any]", value)


def in_pairs(mapper: Callable[[Any, Any], Any], what: str) -> Callable[[Any, Any], Any]:
    """A mapper whose results are pairs, or None."""

    def checked(key: Any, value: Any) -> Any:
        pair = mapper(key, value)
        if (type(pair) is tuple and len(pair) == 2) or pair is None:
            return pair
        return pair_of(pair, mapper, what)

    checked.by_value = getattr(mapper, "by_value", mapper)  # type: ignore[attr-defined]
    return cast("Callable[[Any, Any], Any]", checked)


def _site(mapper: Callable[..., Any]) -> str:
    return function_site(getattr(mapper, "by_value", mapper))
