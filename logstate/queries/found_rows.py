"""Whether a read found anything, for whoever looks on elsewhere where it did not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

_END = object()


def found_rows(answer: Any) -> tuple[bool, Any]:
    """Whether there is something, and the answer; the first row of an iterator is read for it.

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
