"""Check whether a read found anything, for callers that otherwise try another partition."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

_END = object()


def found_rows(answer: Any) -> tuple[bool, Any]:
    """Return whether there is a result, and the result; this reads an iterator's first row.

    >>> found_rows(None)
    (False, None)
    >>> is_there, rows = found_rows(iter([1, 2]))
    >>> is_there, list(rows)
    (True, [1, 2])
    """
    if not isinstance(answer, Iterator):
        return answer is not None, answer
    first = next(answer, _END)
    return (False, iter(())) if first is _END else (True, chain((first,), answer))
