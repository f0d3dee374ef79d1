"""The endpoint for reads of other instances: one request, one reply, with minimal overhead.

It handles the server's messages directly. Routing, request and thread of the other paths take
several times as long as the read itself, which does not matter for requests of people.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable

import msgspec

from logstate.contracts.errors import UNDECODABLE
from logstate.http.parameters import BadRequestError
from logstate.http.query_handler import QueryHandler
from logstate.http.responses import Threads, error_response, handle_errors, unauthorized
from logstate.queries.requests import ReadRequest

try:
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError("Queries over HTTP need Starlette: pip install 'logstate[http]'.") from error

_BODY_BYTES_MAX = 1024 * 1024
#: of all requests that are received or answered now; more get the status 503
_BODIES_BYTES_MAX = 32 * 1024 * 1024

_request_of = msgspec.msgpack.Decoder(ReadRequest).decode


class ReadEndpoint:
    """An ASGI application."""

    def __init__(
        self,
        answers: QueryHandler,
        may: Callable[[Scope], bool],
        threads: Threads,
        misnamed: Callable[[Scope], Response | None],
    ) -> None:
        self._answers, self._may, self._threads = answers, may, threads
        self._misnamed = misnamed
        self._limit_s = answers.serving.timeout.total_seconds()
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._response(scope, receive)
        await response(scope, receive, send)

    async def _response(self, scope: Scope, receive: Receive) -> Response:
        if not self._may(scope):
            return unauthorized()
        body = bytearray()
        try:
            refusal = await self._received(receive, body) or self._misnamed(scope)
            if refusal is not None:
                return refusal
            return await self._threads.run(handle_errors, self._reply_to, bytes(body))
        finally:
            self._held -= len(body)

    async def _received(self, receive: Receive, body: bytearray) -> Response | None:
        """Receive the body; return None if it is complete, otherwise the error."""
        more = True
        try:
            async with asyncio.timeout(self._limit_s):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return error_response(400, "the request ended before it was complete")
                    piece = message.get("body", b"")
                    body += piece
                    self._held += len(piece)
                    if self._held > _BODIES_BYTES_MAX:
                        return error_response(503, "requests have too many bytes: try again")
                    if len(body) > _BODY_BYTES_MAX:
                        return error_response(413, f"a request has at most {_BODY_BYTES_MAX} bytes")
                    more = message.get("more_body", False)
        except TimeoutError:
            return error_response(408, f"the request did not arrive within {self._limit_s:g} s")
        return None

    def _reply_to(self, body: bytes) -> Response:
        try:
            request = _request_of(body)
        except UNDECODABLE as exc:
            raise BadRequestError(f"malformed read request: {exc}") from exc
        try:
            reply = self._answers.reply(request)
        except (TypeError, ValueError, OverflowError, struct.error) as exc:
            raise BadRequestError(
                f"{request.read!r:.100} of store {request.store!r:.100} cannot be read with these"
                f" arguments: {type(exc).__name__}: {exc}"
            ) from exc
        return Response(msgspec.msgpack.encode(reply), media_type="application/msgpack")
