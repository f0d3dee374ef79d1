"""The endpoints of an application's topics: their list, and the newest records of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from logstate.contracts.errors import TopicError
from logstate.contracts.serving import Serving
from logstate.http.parameters import OF_TOPIC, BadRequestError, check_names, number_or
from logstate.http.responses import json_response

try:
    from starlette.requests import Request
    from starlette.responses import Response
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError("Queries over HTTP need Starlette: pip install 'logstate[http]'.") from error

#: records without ``limit``, and at most
_DEFAULT, _MOST = 20, 100


class ReadsTopics(Protocol):
    """Reads topics; raises TopicError for those that are not the application's."""

    def topics(self, timeout_s: float) -> list[dict[str, str]]: ...
    def newest(self, topic: str, limit: int, timeout_s: float) -> dict[str, Any]: ...


class TopicEndpoints:
    """Both wait for the brokers, at most for the time-out of a request."""

    def __init__(self, reads: ReadsTopics, serving: Serving) -> None:
        self._reads = reads
        self._timeout_s = serving.timeout.total_seconds()

    def topics(self, request: Request) -> Response:
        """Return name and kind of each topic."""
        check_names(request.query_params, ())
        return self._answer(lambda: {"topics": self._reads.topics(self._timeout_s)})

    def newest(self, request: Request) -> Response:
        """Return the newest records of a topic."""
        check_names(request.query_params, OF_TOPIC)
        limit = min(number_or(_DEFAULT, request.query_params, "limit", least=1), _MOST)
        topic = request.path_params["topic"]
        return self._answer(lambda: self._reads.newest(topic, limit, self._timeout_s))

    @staticmethod
    def _answer(read: Callable[[], Any]) -> Response:
        try:
            return json_response(read())
        except TopicError as error:
            raise BadRequestError(str(error)) from error
