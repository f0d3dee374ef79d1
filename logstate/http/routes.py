"""Which paths there are, and what is said where there is none, or not by that method."""

from __future__ import annotations

import re
from typing import Any

from logstate.http.responses import error_response

try:
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError("Queries over HTTP need Starlette: pip install 'logstate[http]'.") from error


class WholePathRoute(Route):
    """``$`` would pass over a line break at the end of a path, and ``.`` takes none in it."""

    def __init__(self, path: str, endpoint: Any, **settings: Any) -> None:
        super().__init__(path, endpoint, **settings)
        whole = self.path_regex.pattern.removesuffix("$") + r"\Z"
        self.path_regex = re.compile(whole, re.DOTALL)


def no_route(request: Request, exc: Exception) -> Response:
    """Of what no route takes: the paths that there are, or the methods."""
    assert isinstance(exc, HTTPException)
    path = request.scope["path"]
    if exc.status_code == 405:
        allowed = ", ".join(sorted((exc.headers or {})["Allow"].split(", ")))
        response = error_response(
            405, f"{request.method} is not for {path!r:.100}: it takes {allowed}"
        )
        response.headers["Allow"] = allowed
        return response
    paths = [route.path_format for route in request.app.routes if "GET" in (route.methods or ())]
    return error_response(404, f"nothing is at {path!r:.100}: there are {', '.join(paths)}")
