"""What an instance answers others: only of partitions that it owns, as it finds at the read itself.

Three things have to be true of an answer, else there is none:

- the request was meant for this run of this instance, and not for one that had the address before;
- nobody else claims the task by a later claim (:mod:`logstate.directory.known_instances`);
- the rows were known to be the newest less than ``max_age`` ago, and the task is still here when
  they have been read. ``max_age`` is less than a session of the group: an instance that was cut
  off, or stood still, refuses before another one can have gone on with its partitions. The clock
  of a machine that is suspended stands still too: until the first poll after that its rows count as
  young as before.
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
    """Another instance has to be asked."""


@dataclass(frozen=True)
class Answered:
    """What was read here, not encoded yet."""

    positions: dict[str, int]
    value: Any = None
    rows: Iterator[Any] | None = None
    #: of a copy: changelog offsets that it lacks; None: this instance is the owner
    lag: int | None = None


@dataclass(frozen=True)
class _Pages:
    request: ReadRequest
    answered: Answered


@dataclass
class QueryHandler:
    """See the module. From any thread."""

    instance: str
    application_id: str
    serving: Serving
    specs: dict[str, StoreSpec]
    #: by name, age, and whether copies answer too
    store: Callable[[str, timedelta | None, bool], QueryableStore]
    lookup: Lookup
    _codecs: dict[str, StoreCodec] = field(default_factory=dict, init=False)

    @cached_property
    def _cursors(self) -> Cursors[_Pages]:
        return Cursors(self.lookup.now_ms)

    def codec(self, store: str) -> StoreCodec:
        """How reads of a store travel; raises StoreUnavailableError where there is none."""
        found = self._codecs.get(store)
        if found is None:
            self.lookup.place(store)
            found = self._codecs[store] = StoreCodec(self.specs[store], self.application_id)
        return found

    def reply(self, request: ReadRequest) -> ReadReply:
        """What is sent back. Raises MisdirectedError, CursorGoneError or StoreAccessError."""
        if request.instance != self.instance:
            raise MisdirectedError(
                f"the instance that had this address has ended; {self.instance} runs here now"
            )
        if request.cursor is not None:
            return self._page(self._cursors.taken(request.cursor))
        shape = READS.get(request.read)
        if shape is None:
            raise StoreAccessError(f"there is no read {request.read!r}; there are {sorted(READS)}")
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
        """A read of this instance's own; raises where it is not, or may not be, the owner.

        With ``standby`` of the copy that it keeps, as old as ``max_age`` allows.
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
