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

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, partial

import msgspec

from logstate.contracts.errors import LogstateError, StoreAccessError
from logstate.contracts.serving import Serving
from logstate.directory.metadata import Lookup
from logstate.http.wire import READS, StoreCodec
from logstate.queries.requests import Answer, Cursors, Pages, ReadReply, ReadRequest


class MisdirectedError(LogstateError):
    """The request has to go to another instance."""


@dataclass
class QueryHandler:
    """Serves reads of this instance's stores; usable from any thread."""

    instance: str
    application_id: str
    serving: Serving
    #: reads a partition that is here
    read_here: Callable[[ReadRequest], Answer]
    lookup: Lookup
    _codecs: dict[str, StoreCodec] = field(default_factory=dict, init=False)

    @cached_property
    def _pages(self) -> Pages:
        return Pages(self._encoded, self.serving.page_rows, Cursors(self.lookup.now_ms))

    def codec(self, store: str) -> StoreCodec:
        """Return the codec of a store's reads; raise StoreUnavailableError for an unknown store."""
        found = self._codecs.get(store)
        if found is None:
            spec = self.lookup.place(store).spec
            found = self._codecs[store] = StoreCodec(spec, self.application_id)
        return found

    def reply(self, request: ReadRequest) -> ReadReply:
        """Return the reply. Raise MisdirectedError, CursorGoneError or StoreAccessError."""
        if request.instance != self.instance:
            raise MisdirectedError(
                f"the instance that had this address has ended; {self.instance} runs here now"
            )
        return self._pages.reply(request)

    def _encoded(self, request: ReadRequest) -> Answer:
        read = request.read
        if read not in READS:
            raise StoreAccessError(f"unknown read {read!r}; the reads are {sorted(READS)}")
        codec = self.codec(request.store)
        arguments = codec.arguments_in(read, request.arguments)
        answer = self.read(msgspec.structs.replace(request, arguments=arguments))
        value = answer.value
        if isinstance(value, Iterator):
            value = map(partial(codec.row_out, read), value)
        else:
            value = codec.answer_out(read, value)
        return msgspec.structs.replace(answer, value=value)

    def read(self, request: ReadRequest) -> Answer:
        """Read from this instance; raise if it is not the owner, or may not be.

        A request for a standby reads its standby copy, if ``max_age_ms`` allows.
        """
        if not request.standby:
            self._check_owner(request.store, request.partition)
            limit_ms = self.serving.max_age // timedelta(milliseconds=1)
            request = msgspec.structs.replace(request, max_silence_ms=limit_ms)
        return self.read_here(request)

    def _check_owner(self, store: str, partition: int) -> None:
        place = self.lookup.place(store)
        if place.is_global or self.lookup.why_not() is not None:
            return
        found = self.lookup.of_partition(place, partition)
        if found.instance != self.instance:
            raise MisdirectedError(
                f"store {store!r}: task {found.task} belongs to {found.active_host} now"
            )
