"""Errors of the library without a traceback, so that Spark shows the message first.

How it works: Spark runs a data source in separate Python processes and shows the traceback of an
error, with the message at its end. An environment variable makes it leave out the traceback. It is
set when the error is raised, in a process that ends with the error, so other functions in Spark's
processes keep their tracebacks, and so do errors of other classes.
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
    """Decorate a function that Spark calls, including the iteration of its result."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
        except LogstateError:
            _leave_traceback_out()
            raise
        return _hide_traceback_of(result) if isinstance(result, Iterator) else result

    return cast(_Function, call)


def _hide_traceback_of(result: Iterator[Any]) -> Iterator[Any]:
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
