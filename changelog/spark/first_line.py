"""What a user reads first when a read is refused: our sentence, not the traceback above it.

How it works: Spark runs a data source in Python processes of its own and shows what these report of
an error, which is a traceback with the message at its end. It leaves the traceback out where an
environment variable says so. That is set at the moment of the error, in a process that ends with
it; other functions that run in Spark's processes keep their tracebacks, as do errors that are not
the library's own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, TypeVar, cast

from logstate.contracts.errors import LogstateError

_Function = TypeVar("_Function", bound=Callable[..., Any])


def message_first(function: _Function) -> _Function:
    """Decorates what Spark calls; also what it does while its result is iterated."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
        except LogstateError:
            _leave_traceback_out()
            raise
        return _iterate(result) if isinstance(result, Iterator) else result

    return cast(_Function, call)


def _iterate(result: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from result
    except LogstateError:
        _leave_traceback_out()
        raise


def _leave_traceback_out() -> None:
    if _is_process_of_spark():
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"


def _is_process_of_spark() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
