"""A stream that cannot be read, and says why as soon as it is asked for anything.

Spark hides what goes wrong while it makes a stream's reader behind an error of its own: it stops
the reader that there is not. So there is one, whose first answer is the error.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from logstate.changelog.spark.first_line import message_first
from logstate.changelog.spark.read_limits import ReadLimit, SupportsTriggerAvailableNow
from logstate.contracts.errors import LogstateError


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises the error at every question."""

    def __init__(self, error: LogstateError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names, here and below
        self._refuse()

    def latestOffset(  # noqa: N802
        self,
        start: dict[str, Any] | None = None,  # noqa: ARG002
        limit: ReadLimit | None = None,  # noqa: ARG002
    ) -> dict[str, Any]:
        self._refuse()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._refuse()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> NoReturn:  # noqa: ARG002
        self._refuse()

    def read(self, partition: InputPartition) -> NoReturn:  # noqa: ARG002
        self._refuse()

    def stop(self) -> None:
        """Nothing was begun."""

    @message_first
    def _refuse(self) -> NoReturn:
        raise self._error
