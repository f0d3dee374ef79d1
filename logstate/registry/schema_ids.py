"""What is known about schema ids: a small cache in front of a schema registry.

The id in front of a record is input from outside: four bytes anybody can write. So what is looked
up is bounded on both sides. Ids that resolve are kept, the oldest dropped beyond a cap. Ids that
the registry does not know are remembered for a while too, so that a topic full of garbage asks
once per id and period instead of once per record. Failures to reach the registry are not
remembered: the next record asks again.

Invariants:

- one request at a time, and so one per id;
- an id's schema never changes, hence nothing found expires.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from logstate.contracts.errors import SerdeError

I = TypeVar("I", bound=Hashable)  # noqa: E741  an id: a number or a GUID
R = TypeVar("R")


class UnknownSchemaError(SerdeError):
    """The registry answered, and does not know the id."""


class SchemaIds(Generic[I, R]):
    """Ids to whatever ``load`` makes of them, usually a compiled reader.

    ``load`` raises UnknownSchemaError for an id that does not exist; that is remembered for
    ``missing_ttl_s`` seconds. Everything else it raises passes through.
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
        """What the id stands for; asks the registry where it is not known yet."""
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
