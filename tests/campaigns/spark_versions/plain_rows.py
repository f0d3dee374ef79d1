"""What Spark answers, as JSON has it: rows, and errors by how they begin. For ``reader``."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Row

from logstate.contracts.errors import LogstateError


class NotDoneError(Exception):
    """Spark did something else than was asked for, and said nothing."""


def rows(frame: Any) -> list[Any]:
    return sorted((plain(row) for row in frame.collect()), key=json.dumps)


def plain(value: Any) -> Any:
    """A value of a row as JSON has it."""
    match value:
        case Row():
            return [plain(one) for one in value]
        case dict():
            return {str(key): plain(one) for key, one in value.items()}
        case list():
            return [plain(one) for one in value]
        case datetime():
            return value.astimezone(UTC).isoformat()
        case date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes() | bytearray():
            return bytes(value).hex()
    return value


def told_first(read: Callable[[], Any], about: str) -> str:
    """Whether what is raised begins with a sentence of the library."""
    try:
        read()
    except (PySparkException, LogstateError) as error:
        said = str(error)
        if "Traceback" in said:
            return f"a traceback: {said}"
        return "told" if about in said.splitlines()[0] else said
    return "nothing is raised"
