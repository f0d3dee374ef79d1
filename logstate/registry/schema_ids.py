"""A bounded cache of schema ids in front of a schema registry.

The id before a record is external input: four bytes that anybody can write. So lookups are limited
in both directions. Ids that resolve are kept, the oldest dropped beyond a maximum. Ids that the
registry does not know are cached for a while too, so that a topic full of garbage causes one
request per id and period instead of one per record. Failures to reach the registry are not cached:
the next record tries again.

Invariants:

- one request at a time, and so one per id;
- an id's schema never changes, hence nothing found expires.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import RegistryError, SerdeError

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
                self._bound[subject] = self._request_or_cached(subject)
            return self._bound[subject]

    def _request_or_cached(self, subject: str) -> B:
        try:
            return self._ask(subject)
        except UnknownSchemaError as error:
            raise RegistryError(
                f"The schema does not exist under the subject {subject!r}: {text_of(error)}."
                f" {self._remedy}."
            ) from error


I = TypeVar("I", bound=Hashable)  # noqa: E741  an id: a number or a GUID
R = TypeVar("R")


class UnknownSchemaError(SerdeError):
    """The registry responded, and does not know the id."""


class SchemaIds(Generic[I, R]):
    """Maps ids to the results of ``load``, usually a compiled reader.

    ``load`` raises UnknownSchemaError for an id that does not exist; that is cached for
    ``missing_ttl_s`` seconds. Its other errors are passed on.
    """

    def __init__(
        self,
        load: Callable[[I], R],
        *,
        capacity: int = 1000,
        missing_ttl_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        assert capacity > 0, capacity
        self._load = load
        self._capacity = capacity
        self._missing_ttl_s = missing_ttl_s
        self._clock = clock
        self._lock = threading.Lock()
        self._missing: dict[I, tuple[float, str]] = {}
        # Public so that the hot path can do one dict lookup without a method call.
        self.found: dict[I, R] = {}

    def get(self, schema_id: I) -> R:
        """Return the result for an id; call the registry if it is not known yet."""
        known = self.found.get(schema_id)
        return known if known is not None else self._get_slowly(schema_id)

    def _get_slowly(self, schema_id: I) -> R:
        with self._lock:
            known = self.found.get(schema_id)  # Another thread may have been faster.
            if known is not None:
                return known
            now = self._clock()
            missing_until, reason = self._missing.get(schema_id, (now, ""))
            if now < missing_until:
                raise UnknownSchemaError(reason)
            try:
                loaded = self._load(schema_id)
            except UnknownSchemaError as error:
                _bound(self._missing, self._capacity)
                self._missing[schema_id] = (now + self._missing_ttl_s, str(error))
                raise
            self._missing.pop(schema_id, None)
            _bound(self.found, self._capacity)
            self.found[schema_id] = loaded
            return loaded


def _bound(entries: dict[I, Any], capacity: int) -> None:
    """Make room for one more by dropping the oldest entry."""
    if len(entries) >= capacity:
        entries.pop(next(iter(entries)))
