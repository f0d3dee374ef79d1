"""Connections that are given up: of whoever does not ask, and of whoever does not read the answer.

The server waits for both without a limit. A few hundred silent connections would keep everybody
out, and a reader who stands still keeps rows of a commit, or a stream of changes. A request that
never comes to its body would be kept in memory, as much as can be sent within the time: one of the
server's two parsers (httptools, h11) bounds it, the other does not. Nor how many requests it takes
from one piece while the first is answered: thousands fit in one, and each takes a hundred times its
bytes.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

#: a network may be slow, and what is sent is many times a request
_READING_TAKES = 3
#: of a request before its body; what others send with a key is a token and a path
HEAD_BYTES_MAX = 65_536
#: requests of a connection that wait for the answer before theirs
_WAITING_MAX = 64


def with_deadlines(limit_s: float) -> type[asyncio.Protocol]:
    """The server's protocol, in which a request is there within a time.

    An answer is read on within three times of it.
    """

    class Limited(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        """See the module."""

        _asked: asyncio.TimerHandle | None = None
        _read: asyncio.TimerHandle | None = None
        _head_bytes = 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._await_request()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._is_answering():
                self._asked, self._head_bytes = _without(self._asked), 0
                if len(getattr(self, "pipeline", ())) > _WAITING_MAX:
                    self.transport.abort()
                return
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self.transport.abort()
            elif self._asked is None:
                self._await_request()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._read = self._read or self.loop.call_later(
                _READING_TAKES * limit_s, self.transport.abort
            )

        def resume_writing(self) -> None:
            self._read = _without(self._read)
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            self._asked, self._read = _without(self._asked), _without(self._read)
            super().connection_lost(exc)

        def _await_request(self) -> None:
            self._asked = self.loop.call_later(limit_s, self._give_up)

        def _give_up(self) -> None:
            self._asked = None
            if not self._is_answering():
                self.transport.abort()

        def _is_answering(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

    return Limited


def _without(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """None, and the timer does not ring."""
    if timer is not None:
        timer.cancel()
    return None
