"""Spark's classes for the limit of a micro-batch, which Spark has since 4.2.

In earlier versions a micro-batch takes all available records, and a source receives no limit.
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
except ImportError:  # Spark 4.0 and 4.1, which do not use these classes
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
