"""Serve reads of other instances: only of owned partitions, checked at the read itself.

A response requires three conditions:

- the request is meant for this run of this instance, not for an earlier one at the same address;
- no other instance has a later claim on the task (:mod:`logstate.directory.known_instances`);
- the rows were known to be the newest less than ``max_age`` ago, and the task is still here after
  the read. ``max_age`` is less than a session of the group: an instance that was disconnected, or
  paused, refuses before another one can have taken over its partitions. The clock of a suspended
  machine stops too: until the first poll after that, its rows keep the age that they had before.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any

from logstate.contracts.errors import LogstateError, StoreAccessError
from logstate.contracts.serving import Serving
from logstate.contracts.stores import StoreSpec
from logstate.directory.metadata import Lookup
from logstate.http.cursors import Cursors
from logstate.http.wire import READS, ReadReply, ReadRequest, StoreCodec
from logstate.queries.queries import QueryableStore


class MisdirectedError(LogstateError):
    """The request has to go to another instance."""


@dataclass(frozen=True)
class Answered:
    """The result of a read here, not encoded yet."""

    positions: dict[str, int]
    value: Any = None
    rows: Iterator[Any] | None = None
    #: of a standby: changelog offsets that it lacks; None: this instance is the owner
    lag: int | None = None


@dataclass(frozen=True)
class _Pages:
    request: ReadRequest
    answered: Answered


@dataclass
class QueryHandler:
    """Serves reads of this instance's stores; usable from any thread."""

    instance: str
    application_id: str
    serving: Serving
    specs: dict[str, StoreSpec]
    #: returns a store by name, age, and whether standbys may be read
    store: Callable[[str, timedelta | None, bool], QueryableStore]
    lookup: Lookup
    _codecs: dict[str, StoreCodec] = field(default_factory=dict, init=False)

    @cached_property
    def _cursors(self) -> Cursors[_Pages]:
        return Cursors(self.lookup.now_ms)

    def codec(self, store: str) -> StoreCodec:
        """Return the codec of a store's reads; raise StoreUnavailableError for an unknown store."""
        found = self._codecs.get(store)
        if found is None:
            self.lookup.place(store)
            found = self._codecs[store] = StoreCodec(self.specs[store], self.application_id)
        return found

    def reply(self, request: ReadRequest) -> ReadReply:
        """Return the reply. Raise MisdirectedError, CursorGoneError or StoreAccessError."""
        if request.instance != self.instance:
            raise MisdirectedError(
                f"the instance that had this address has ended; {self.instance} runs here now"
            )
        if request.cursor is not None:
            return self._page(self._cursors.taken(request.cursor))
        shape = READS.get(request.read)
        if shape is None:
            raise StoreAccessError(f"unknown read {request.read!r}; the reads are {sorted(READS)}")
        codec = self.codec(request.store)
        arguments = codec.arguments_in(request.read, request.arguments)
        answered = self.read(
            request.store,
            request.partition,
            request.read,
            arguments,
            request.options,
            None if request.max_age_ms is None else timedelta(milliseconds=request.max_age_ms),
            standby=request.standby,
        )
        if answered.rows is None:
            value = codec.answer_out(request.read, answered.value)
            return ReadReply(answered.positions, value, answered.lag)
        return self._page(_Pages(request, answered))

    def read(
        self,
        store: str,
        partition: int,
        read: str,
        arguments: tuple[Any, ...],
        options: dict[str, bool],
        max_age: timedelta | None,
        *,
        standby: bool = False,
    ) -> Answered:
        """Read from this instance; raise if it is not the owner, or may not be.

        With ``standby``, read its standby copy, if ``max_age`` allows.
        """
        if standby:
            queryable = self.store(store, max_age, True)
        else:
            limit = self.serving.max_age
            queryable = self.store(store, limit if max_age is None else min(limit, max_age), False)
            self._check(store, partition)
        answer = queryable.answer(partition, read, arguments, options)
        positions = {str(tp): offset for tp, offset in answer.positions.items()}
        if isinstance(answer.value, Iterator):
            return Answered(positions, rows=answer.value, lag=answer.lag)
        return Answered(positions, answer.value, lag=answer.lag)

    def _check(self, store: str, partition: int) -> None:
        place = self.lookup.place(store)
        if place.is_global or self.lookup.why_not() is not None:
            return
        found = self.lookup.of_partition(place, partition)
        if found.instance != self.instance:
            raise MisdirectedError(
                f"store {store!r}: task {found.task} belongs to {found.active_host} now"
            )

    # ------------------------------------------------------------------ pages

    def _page(self, one: _Pages) -> ReadReply:
        rows, request = one.answered.rows, one.request
        assert rows is not None
        codec, most = self.codec(request.store), self.serving.page_rows
        found = [codec.row_out(request.read, row) for row in itertools.islice(rows, most)]
        cursor = self._cursors.kept(one) if len(found) == most else None
        answered = one.answered
        return ReadReply(answered.positions, lag=answered.lag, rows=found, cursor=cursor)
