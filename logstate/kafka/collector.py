"""Python's collector of garbage while the client hands over thousands of messages at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """For some milliseconds in which thousands of objects are made, none of them in a circle.

    The collector would look at all of them again and again, which takes a quarter of a read.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
