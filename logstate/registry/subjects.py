"""The schema ids with which a serde writes to topics: one registry call per subject."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import RegistryError
from logstate.registry.schema_ids import UnknownSchemaError

B = TypeVar("B")

REMEDY = "Register it before the application starts, or allow auto_register=True"


class Subjects(Generic[B]):
    """The result of ``ask`` for each ``<topic>-key`` and ``<topic>-value``; usable from any thread.

    Raises RegistryError if the registry does not know the schema, and registering is not allowed;
    ``remedy`` says what to do then.
    """

    def __init__(self, ask: Callable[[str], B], remedy: str = REMEDY) -> None:
        self._ask = ask
        self._remedy = remedy
        self._bound: dict[str, B] = {}
        self._lock = threading.Lock()

    def bind(self, topic: str, is_key: bool) -> B:
        """Return the result for writing the keys, or the values, of ``topic``."""
        subject = f"{topic}-{'key' if is_key else 'value'}"
        with self._lock:
            if subject not in self._bound:
                self._bound[subject] = self._asked(subject)
            return self._bound[subject]

    def _asked(self, subject: str) -> B:
        try:
            return self._ask(subject)
        except UnknownSchemaError as error:
            raise RegistryError(
                f"The schema does not exist under the subject {subject!r}: {text_of(error)}."
                f" {self._remedy}."
            ) from error
