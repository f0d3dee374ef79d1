"""Bounds of a range of keys, in the order of their bytes; logs a warning if that order matters.

Rows lie in the order of serialised keys, as in Kafka Streams. That is the order of the values for
text, bytes, numbers from 0 on, and keys of ``serdes.ordered(...)``; -1 comes after 1, and of JSON
numbers 10 comes before 2. A range that this makes empty or partial is answered as Kafka Streams
answers it, with a warning, once for a store and cause.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from logstate.contracts.formats import ORDERED, SCALARS, WITH_SCHEMA
from logstate.contracts.stores import StoreSpec

_LOGGER = logging.getLogger(__name__)

#: the first key, and the last one; None = open
Bounds = tuple[bytes, bytes | None]

_SIGNED: Final = {one.name for one in SCALARS.values() if one.order == "negative last"}
_IN_ORDER: Final = {*SCALARS.keys(), ORDERED} - _SIGNED


def key_bounds(spec: StoreSpec, encode: Callable[[Any], bytes]) -> Callable[[Any, Any], Bounds]:
    """Return a function that computes the bounds of two keys of a store, None = open."""
    kind = spec.key_format.get("format")
    warned: set[str] = set()

    def warn(cause: str, lower: Any, upper: Any) -> None:
        if cause not in warned:
            warned.add(cause)
            _LOGGER.warning(
                "store %r, keys from %r to %r: %s (logged once)", spec.name, lower, upper, cause
            )

    def bounds(lower: Any, upper: Any) -> Bounds:
        first = b"" if lower is None else encode(lower)
        last = None if upper is None else encode(upper)
        if last is not None and first > last:
            warn(_REVERSED.format(_REMEDIES.get(str(kind), _REMEDY)), lower, upper)
        elif kind not in _IN_ORDER:
            cause = _warning(kind, lower, upper)
            if cause is not None:
                warn(cause, lower, upper)
        return first, last

    return bounds


def _warning(kind: object, lower: Any, upper: Any) -> str | None:
    if lower is None and upper is None:
        return None
    if kind in _SIGNED:
        if lower is None and upper >= 0:
            return _WITHOUT_NEGATIVES
        if upper is None and lower < 0:
            return _WITHOUT_POSITIVES
        return None
    if kind == "json":
        bounds = (bound for bound in (lower, upper) if bound is not None)
        return None if all(isinstance(bound, str) for bound in bounds) else _AS_TEXT
    return _BY_SCHEMA.format(kind) if kind in WITH_SCHEMA else None


_REMEDY = "Is the first key meant to be the last one?"
_OF_SIGNS = (
    "Negative numbers come after positive ones: ask for range(lower, -1) and range(0, upper), or"
    " filter all(); negative float64 keys come in falling order"
)
_REMEDIES = dict.fromkeys(_SIGNED, _OF_SIGNS) | {
    "json": "JSON numbers come in the order of their text, 10 before 2: filter all(), or declare"
    " the keys with serdes.ordered(...)"
}
_REVERSED = (
    "no keys are between them, because rows are in the order of their keys' bytes, and there the"
    " first key comes after the last one. {}"
)
_WITHOUT_NEGATIVES = (
    "negative keys are not among them, because rows lie in the order of their keys' bytes, where"
    " they come last. Begin with 0 where none are wanted, or filter all()"
)
_WITHOUT_POSITIVES = (
    "keys from 0 on are not among them, because rows lie in the order of their keys' bytes, where"
    " negative ones come last. Read range(0, None) too, or end with -1 where none are wanted"
)
_AS_TEXT = (
    "rows lie in the order of their keys' bytes, and of JSON that is the text: of numbers, 10 comes"
    " before 2, so some between the two may be missing and others be there. Filter all(), or"
    " declare the keys with serdes.ordered(...), whose rows are in the order of the values"
)
_BY_SCHEMA = (
    "rows are in the order of their keys' bytes, which in the format {} is not that of the values,"
    " so some between the two may be missing and others be there. Filter all(), or declare the keys"
    " with serdes.ordered(...), whose rows are in the order of the values"
)
