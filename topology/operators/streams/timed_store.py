"""A store of values with timestamps for user code: the timestamp of each put row is checked.

The changelog stores a row's time as its record's timestamp, which cannot be negative. A row with
such a time would come back from a restore with another time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from logstate.contracts.record_parts import TIMESTAMP_MAX, event_time_of, own_headers_of, shown
from logstate.contracts.stores import Entries, ValueAndTimestamp, pairs_of


def as_written_by_users(store: Any, name: str) -> Any:
    """Return the store itself if it has no timestamps; otherwise one whose puts check them."""
    return TimedStore(store, name) if getattr(store, "is_timestamped", False) else store


class TimedStore:
    """Reads are those of the store, without extra cost."""

    #: if the store has one
    get: Callable[[Any], Any]

    def __init__(self, store: Any, name: str) -> None:
        self._store = store
        self._name = name
        self._given = f"Store {name!r} was given a row with"
        for read in dir(store):
            if not read.startswith("_") and not hasattr(type(self), read):
                setattr(self, read, getattr(store, read))
        #: raises TypeError or ValueError for a time or headers that no record can have
        self.put = self._bound_put()

    def checked(
        self, is_allowed: Callable[[], bool], refuse: Callable[[str], None]
    ) -> dict[str, Callable[..., Any]]:
        """Methods that call ``refuse`` with their name first, unless ``is_allowed``."""
        reads: dict[str, Callable[..., Any]] = {}
        if hasattr(self._store, "checked"):
            reads = self._store.checked(is_allowed, refuse)
        return {**reads, "put": self._bound_put(is_allowed, partial(refuse, "put"))}

    def _bound_put(
        self,
        is_allowed: Callable[[], bool] | None = None,
        refuse: Callable[[], None] = lambda: None,
    ) -> Callable[..., None]:
        fitting, put_row = self._readable_row, self._store.put

        def put(key: Any, row: Any) -> None:
            if is_allowed is not None and not is_allowed():
                refuse()
            if row is not None and (
                type(row) is not ValueAndTimestamp
                or type(row[1]) is not int
                or not 0 <= row[1] <= TIMESTAMP_MAX
                or row[2] is not None
            ):
                row = fitting(row)
            put_row(key, row)

        def put_window(key: Any, row: Any, start_ms: int) -> None:
            if is_allowed is not None and not is_allowed():
                refuse()
            put_row(key, row if row is None else fitting(row), start_ms)

        return put_window if hasattr(self._store, "fetch") else put

    def put_all(self, entries: Entries[Any, Any]) -> None:
        """Put each entry. Raises TypeError if the entries are not pairs."""
        for key, row in pairs_of(entries, self._name):
            self.put(key, row)

    def put_if_absent(self, key: Any, row: Any) -> Any:
        """Return the existing row; None if the row was put."""
        found = self.get(key)
        if found is None:
            self.put(key, row)
        return found

    def _readable_row(self, row: Any) -> Any:
        if type(row) is not ValueAndTimestamp:
            row = self._with_time(row)
        timestamp, headers = row[1], row[2]
        if row[0] is not None and (
            type(timestamp) is not int or not 0 <= timestamp <= TIMESTAMP_MAX
        ):
            row = row._replace(timestamp=event_time_of(timestamp, self._given))
        if headers is not None:
            row = row._replace(headers=own_headers_of(headers, self._given))
        return row

    def _with_time(self, row: Any) -> ValueAndTimestamp[Any]:
        if isinstance(row, tuple):
            return ValueAndTimestamp(*row)
        raise TypeError(
            f"{self._given}out a timestamp: got {shown(row)}, a {type(row).__name__}. Put"
            " ValueAndTimestamp(value, timestamp)"
        )
