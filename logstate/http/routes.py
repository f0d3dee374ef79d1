"""The routes, and the responses to unknown paths and methods."""

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
    """Matches whole paths: ``$`` would ignore a line break at the end, and ``.`` matches none."""

    def __init__(self, path: str, endpoint: Any, **settings: Any) -> None:
        super().__init__(path, endpoint, **settings)
        whole = self.path_regex.pattern.removesuffix("$") + r"\Z"
        self.path_regex = re.compile(whole, re.DOTALL)


def no_route(request: Request, exc: Exception) -> Response:
    """Return the response without a route: with the known paths, or the allowed methods."""
    assert isinstance(exc, HTTPException)
    path = request.scope["path"]
    if exc.status_code == 405:
        allowed = ", ".join(sorted((exc.headers or {})["Allow"].split(", ")))
        response = error_response(
            405, f"{request.method} is not allowed for {path!r:.100}: use {allowed}"
        )
        response.headers["Allow"] = allowed
        return response
    paths = [route.path_format for route in request.app.routes if "GET" in (route.methods or ())]
    return error_response(404, f"unknown path {path!r:.100}: the paths are {', '.join(paths)}")
