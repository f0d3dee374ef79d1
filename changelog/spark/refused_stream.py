"""A stream reader whose methods raise the error that the stream cannot be read.

If creating a stream's reader fails, Spark then tries to stop the missing reader, and that second
error hides the first one. So this reader is created instead, and raises the error when it is used.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from logstate.changelog.spark.admission import ReadLimit, SupportsTriggerAvailableNow
from logstate.changelog.spark.first_line import message_first
from logstate.contracts.errors import LogstateError


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises the error in each method."""

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
        """Do nothing: nothing was started."""

    @message_first
    def _refuse(self) -> NoReturn:
        raise self._error
