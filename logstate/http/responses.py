"""What is answered: JSON, lines of it, and refusals with their reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import msgspec

from logstate.contracts.errors import LogstateError, SerdeError, StoreError, StoreUnavailableError
from logstate.http.answers import MisdirectedError
from logstate.http.changes import ChangesGoneError, NoChangesError
from logstate.http.cursors import CursorGoneError

try:
    from starlette.responses import Response, StreamingResponse
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError("Queries over HTTP need Starlette: pip install 'logstate[http]'.") from error


class Reason(Protocol):
    """Whether something is so, and why."""

    @property
    def reason(self) -> str: ...
    def __bool__(self) -> bool: ...


class BadRequestError(LogstateError):
    """What was asked cannot be understood."""


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
    """One document."""
    return Response(msgspec.json.encode(content), status, media_type="application/json")


def ndjson_response(lines: Iterator[bytes]) -> Response:
    """A document per line."""
    return StreamingResponse(lines, media_type="application/x-ndjson")


def refused(status: int, reason: str) -> Response:
    """Not this, and why."""
    response = json_response({"error": reason}, status)
    if status == 503:
        response.headers["Retry-After"] = "1"
    return response


def answered(handler: Callable[[Any], Response], request: Any) -> Response:
    """What the handler answers, or the refusal that its error means."""
    try:
        return handler(request)
    except (LogstateError, ImportError) as exc:
        status = next(status for kind, status in _STATUS if isinstance(exc, kind))
        return refused(status, str(exc))


def health(found: Reason) -> Response:
    """For probes."""
    return json_response({"ok": bool(found), "reason": found.reason}, 200 if found else 503)
