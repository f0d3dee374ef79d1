"""Close several resources, even if closing one of them fails."""

from __future__ import annotations

import logging
from collections.abc import Callable

from logstate.contracts.clients import Steps
from logstate.contracts.error_text import text_of

_LOGGER = logging.getLogger(__name__)


class ErrorCollector:
    """Closes all resources; ``finish`` raises the first failure.

    ``cause`` is the error that made it necessary, if any: then failures are only logged, because
    the cause must be raised.
    """

    def __init__(self, cause: BaseException | None = None) -> None:
        self._cause = cause
        self._failure: Exception | None = None

    def call(self, close: Callable[[], object]) -> None:
        """Close one resource."""
        try:
            close()
        except Exception as exc:  # noqa: BLE001  user code may raise anything
            self._note(exc)

    def steps(self, close: Steps[None]) -> Steps[None]:
        """Close one resource whose ``close`` is a generator of steps."""
        try:
            yield from close
        except Exception as exc:  # noqa: BLE001
            self._note(exc)

    def finish(self) -> None:
        """Raise the first failure, after all resources were closed."""
        if self._failure is not None and self._cause is None:
            raise self._failure

    def _note(self, exc: Exception) -> None:
        _LOGGER.warning(
            "closing continues after a failure: %s: %s", type(exc).__name__, text_of(exc)
        )
        self._failure = self._failure or exc
