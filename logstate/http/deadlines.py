"""Close connections whose client does not send a request, does not read, or sends too much.

The server waits for all three without a limit. A few hundred silent connections would lock out all
others, and a client that stops reading keeps the rows of a commit, or a stream of changes. The
server also accepts everything that a client sends: an endless head, more requests during the first
one, a thousand headers after a chunked body. So its parser gets the bytes in small pieces, and only
while no request is in progress; later bytes are buffered, up to a limit, and parsed afterwards.

Whatever a client sends, a connection holds at most ``HEAD_BYTES_MAX`` of a head,
``AHEAD_BYTES_MAX`` of the requests after it, ``BODY_BYTES_MAX`` of a body, and of a response
``UNSENT_BYTES_MAX`` and one message.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from logstate.http.connections import BUSY, FRESH, IDLE, REQUESTS_LOGGER, STILL, Connections

#: factor for reading: a network may be slow, and a response is much larger than a request
_READING_TAKES = 3
#: of a request before its body; clients send a token and a path with the key
HEAD_BYTES_MAX: Final = 65_536
HEADERS_MAX: Final = 100
#: of the requests after the one in progress
AHEAD_BYTES_MAX: Final = 4_096
#: of a request of another instance, the only one with a body, and its chunk headers
BODY_BYTES_MAX: Final = 1024 * 1024 + HEAD_BYTES_MAX
#: of a response that the client does not read; its producer waits then
UNSENT_BYTES_MAX: Final = 32_768
#: pipelined requests of a connection that wait for the response before theirs
_WAITING_MAX = 64
#: bytes that are parsed before the requests are counted: fewer than that many fit into them
_PIECE = 1_024


def with_deadlines(
    limit_s: float, connections: Connections | None = None
) -> type[asyncio.Protocol]:
    """Return the server's protocol class, with a time limit for the arrival of a request.

    A client has three times that limit to read a response. ``connections`` counts the memory.
    """
    counted = Connections(1_000) if connections is None else connections
    attributes = {"limit_s": limit_s, "counted": counted}
    return type("Limited", (_Limited, AutoHTTPProtocol), attributes)


class _Limited(asyncio.Protocol):
    """Precedes the server's own protocol in the order of classes."""

    limit_s: float
    counted: Connections
    # of the server's protocol
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    flow: Any
    cycle: Any
    headers: Any

    _asked: asyncio.TimerHandle | None = None
    _read: asyncio.TimerHandle | None = None
    _place: Any = None
    _has_asked = False
    _head_bytes = 0
    _body_bytes = 0

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.logger = REQUESTS_LOGGER
        #: bytes that arrived while a request was in progress
        self._ahead = bytearray()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=UNSENT_BYTES_MAX)
        self._place = self.counted.made(transport)
        if self._place is not None:
            self._place.abort = self._close
        self._await_request()

    def data_received(self, data: bytes) -> None:
        if self._ahead or self._is_waiting():
            self._buffer(data)
        else:
            self._parse(data)
        self._report_state()

    def on_response_complete(self) -> None:
        super().on_response_complete()  # type: ignore[misc]
        self._has_asked = True
        if self._ahead:
            self.loop.call_soon(self._parse_buffered)
        self._report_state()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._read = self._read or self.loop.call_later(_READING_TAKES * self.limit_s, self._close)
        self._report_state()

    def resume_writing(self) -> None:
        self._read = _cancelled(self._read)
        super().resume_writing()
        self._report_state()

    def connection_lost(self, exc: Exception | None) -> None:
        self._asked, self._read = _cancelled(self._asked), _cancelled(self._read)
        self._ahead.clear()
        super().connection_lost(exc)

    # -------------------------------------------------------------- pieces

    def _parse(self, data: bytes) -> None:
        """Parse data up to the next request after the one in progress."""
        for start in range(0, len(data), _PIECE):
            if self.transport.is_closing():
                return
            if self._is_waiting():
                self._buffer(data[start:])
                return
            piece = data[start : start + _PIECE]
            super().data_received(piece)
            self._check_size(len(piece))

    def _check_size(self, size: int) -> None:
        if self._is_answering():
            self._asked, self._head_bytes = _cancelled(self._asked), 0
            self._body_bytes = self._body_bytes + size if self.cycle.more_body else 0
        else:
            self._head_bytes += size
            self._body_bytes = 0
            if self._asked is None:
                self._await_request()
        if (
            self._head_bytes > HEAD_BYTES_MAX
            or self._body_bytes > BODY_BYTES_MAX
            or len(self.headers or ()) > HEADERS_MAX
            or len(getattr(self, "pipeline", ())) > _WAITING_MAX
        ):
            self._close()

    def _buffer(self, data: bytes) -> None:
        self._ahead += data
        if len(self._ahead) > AHEAD_BYTES_MAX:
            self._ahead.clear()
            self._close()

    def _parse_buffered(self) -> None:
        """Parse the buffered bytes."""
        if self._ahead and not self._is_waiting():
            data = bytes(self._ahead)
            self._ahead.clear()
            self._parse(data)
            self._report_state()

    def _report_state(self) -> None:
        if self._place is None or self.transport.is_closing():
            return
        unsent = self.transport.get_write_buffer_size() if self.flow.write_paused else 0
        body = len(self.cycle.body) if self._is_answering() else self._head_bytes
        if self.flow.write_paused:
            state = STILL
        elif self._is_answering():
            state = BUSY
        else:
            state = IDLE if self._has_asked else FRESH
        self.counted.record_state(self._place, state, len(self._ahead) + unsent + body)

    def _close(self) -> None:
        """Close at once without writing: asyncio logs writes to a closed connection."""
        if self.cycle is not None:
            self.cycle.disconnected = True
        self.transport.abort()

    def _await_request(self) -> None:
        self._asked = self.loop.call_later(self.limit_s, self._give_up)

    def _give_up(self) -> None:
        self._asked = None
        if not self._is_answering():
            self._close()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _is_waiting(self) -> bool:
        """Whether incoming bytes are not part of the request in progress."""
        return self._is_answering() and not self.cycle.more_body


def _cancelled(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancel the timer, and return None."""
    if timer is not None:
        timer.cancel()
    return None
