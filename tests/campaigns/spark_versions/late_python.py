"""Streaming queries for which a Python process of Spark came late.

A source that is written in Python has a process of its own while a query begins, and Spark gives it
10 s to start and connect, which no setting changes: beside enough other work a query ends before
its first batch. Whoever runs one starts it again, and it goes on where its checkpoint stands.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from pyspark.errors import PySparkException

_LIMIT_S = 900.0

T = TypeVar("T")


def again_where_python_was_late(run: Callable[[], T]) -> T:
    """What ``run``, which starts a query, returns once the query was not ended by that."""
    deadline = time.monotonic() + _LIMIT_S
    while True:
        try:
            return run()
        except PySparkException as failure:
            was_late = "Python worker failed to connect back" in str(failure)
            if not was_late or time.monotonic() > deadline:
                raise


def run_available(writer: Any) -> Any:
    """The query of a ``DataStreamWriter`` over what is there now, at its end."""

    def run() -> Any:
        query = writer.trigger(availableNow=True).start()
        if not query.awaitTermination(_LIMIT_S):
            query.stop()
            raise TimeoutError(f"the query did not end within {_LIMIT_S:.0f} s")
        if (failure := query.exception()) is not None:
            raise failure
        return query

    return again_where_python_was_late(run)
