"""Responses: JSON documents, lines of JSON, and errors with their reason."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec

from logstate.contracts.errors import LogstateError, SerdeError, StoreError, StoreUnavailableError
from logstate.http.changes import ChangesGoneError, NoChangesError
from logstate.http.keys import document
from logstate.http.parameters import BadRequestError
from logstate.http.query_handler import MisdirectedError
from logstate.queries.requests import CursorGoneError

try:
    import anyio
    import anyio.to_thread
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError("Queries over HTTP need Starlette: pip install 'logstate[http]'.") from error

T = TypeVar("T")


class Threads:
    """A limited number of threads; further calls wait."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._limiter: anyio.CapacityLimiter | None = None

    async def run(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run a call in one of them; return its result."""
        if self._limiter is None:  # it belongs to the event loop
            self._limiter = anyio.CapacityLimiter(self._most)
        bound = partial(call, *arguments)
        return await anyio.to_thread.run_sync(bound, limiter=self._limiter)

    async def run_to_its_end(self, call: Callable[[], None]) -> None:
        """Run a call even if its caller is cancelled."""
        with anyio.CancelScope(shield=True):
            await self.run(call)


try:
    from starlette.responses import Response, StreamingResponse
    from starlette.types import Receive, Scope, Send
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError("Queries over HTTP need Starlette: pip install 'logstate[http]'.") from error


#: of lines that are sent together
_PART_BYTES = 16_384


class Reason(Protocol):
    """A condition, and its reason."""

    @property
    def reason(self) -> str: ...
    def __bool__(self) -> bool: ...


_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (BadRequestError, 400),
    (SerdeError, 400),
    (MisdirectedError, 421),
    (CursorGoneError, 410),
    (ChangesGoneError, 410),
    (NoChangesError, 400),
    (StoreUnavailableError, 503),
    (StoreError, 400),
    (ImportError, 501),
    (LogstateError, 503),
)


def json_response(content: Any, status: int = 200) -> Response:
    """Return a response with one document."""
    return Response(document(content), status, media_type="application/json")


def ndjson_response(lines: Iterator[bytes], threads: Threads) -> Response:
    """Return a response with a document per line; the lines are made in threads."""
    return StreamingResponse(_parts(lines, threads), media_type="application/x-ndjson")


async def _parts(lines: Iterator[bytes], threads: Threads) -> AsyncIterator[bytes]:
    while part := await threads.run(_part, lines):
        yield part


def _part(lines: Iterator[bytes]) -> bytes:
    """Return the next lines; empty at the end."""
    part = bytearray()
    for line in lines:
        part += line
        if len(part) >= _PART_BYTES:
            break
    return bytes(part)


class StreamOf(StreamingResponse):
    """A stream that calls ``ended``, even if its client disconnects before it begins."""

    def __init__(
        self, content: AsyncIterator[bytes], ended: Callable[[], Awaitable[None]], **settings: Any
    ) -> None:
        super().__init__(content, **settings)
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except asyncio.CancelledError:  # by the server, when it stops
            reason = error_event("this instance stops: continue with another one, or its next run")
            await send({"type": "http.response.body", "body": reason, "more_body": False})
        finally:
            await self._ended()


def error_event(reason: str) -> bytes:
    """Return the last event of a stream, with the reason of its end."""
    return b"event: error\ndata: " + msgspec.json.encode({"error": reason}) + b"\n\n"


def error_response(status: int, reason: str) -> Response:
    """Return an error response with its reason."""
    response = json_response({"error": reason}, status)
    if status == 503:
        response.headers["Retry-After"] = "1"
    return response


def unauthorized() -> Response:
    """Return the response to a client without a valid token."""
    response = error_response(401, "missing or invalid bearer token")
    response.headers["WWW-Authenticate"] = "Bearer"
    return response


def handle_errors(handler: Callable[[Any], Response], request: Any) -> Response:
    """Return the handler's response, or the error response for its exception."""
    try:
        return handler(request)
    except (LogstateError, ImportError) as exc:
        status = next(status for kind, status in _STATUS if isinstance(exc, kind))
        return error_response(status, str(exc))


def health(found: Reason) -> Response:
    """Return the response to a probe."""
    return json_response({"ok": bool(found), "reason": found.reason}, 200 if found else 503)
