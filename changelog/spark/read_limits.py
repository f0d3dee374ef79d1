"""How much of a stream one micro-batch takes: Spark's words for it, which Spark has since 4.2.

Before that a micro-batch takes what there is, and a source is not asked for less.
"""

from __future__ import annotations

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    HAS_READ_LIMITS = True
except ImportError:  # Spark 4.0 and 4.1, where nothing looks at these
    HAS_READ_LIMITS = False

    class ReadLimit:  # type: ignore[no-redef]
        """Stands for Spark's."""

    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        """Stands for Spark's."""

    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        """Stands for Spark's."""

        max_rows: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Stands for Spark's."""


__all__ = [
    "HAS_READ_LIMITS",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
]
