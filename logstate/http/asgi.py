"""The ASGI application of an instance: stores, health and metrics, for clients with the token."""

from __future__ import annotations

import asyncio
import hmac
import itertools
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from typing import Any, NamedTuple

import msgspec

from logstate.changelog.stores.kinds import kind_of
from logstate.changelog.stores.store_kind import SPAN, StoreKind
from logstate.contracts.errors import LogstateError
from logstate.contracts.serde import Serde
from logstate.contracts.serving import host_of, is_loopback
from logstate.contracts.stores import StoreSpec
from logstate.http.changes import ChangeFeed
from logstate.http.client import READ_PATH
from logstate.http.instance_endpoints import InstanceEndpoints, IsReady, ServedApplication
from logstate.http.keys import document, element_of, key_of, plain, plain_row, row_shower
from logstate.http.page import page
from logstate.http.parameters import (
    OF_CHANGES,
    OF_KEYS,
    OF_RANGES,
    BadRequestError,
    at_least,
    check_goes_on,
    check_names,
    check_text,
    duration,
    flag,
    is_base64,
    number,
    number_or,
    read_of_index,
    read_of_key,
    read_of_range,
)
from logstate.http.query_handler import QueryHandler
from logstate.http.read_endpoint import ReadEndpoint
from logstate.http.remote_store import RemoteStore
from logstate.http.responses import (
    Reason,
    StreamOf,
    Threads,
    error_event,
    error_response,
    handle_errors,
    health,
    json_response,
    ndjson_response,
    unauthorized,
)
from logstate.http.topic_endpoints import ReadsTopics, TopicEndpoints
from logstate.queries.requests import Cursors

try:
    from starlette.applications import Starlette
    from starlette.datastructures import QueryParams
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
    from starlette.types import Scope
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError("Queries over HTTP need Starlette: pip install 'logstate[http]'.") from error

_PAGE_DEFAULT = 100
#: requests that wait for other instances, and requests of others that are answered here
_ASKING, _ANSWERING = 40, 20
#: concurrent requests except probes; more get the status 503
_REQUESTS_MAX = 200
_SCHEME = b"bearer"


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


class _Pages(NamedTuple):
    """Rows that are read page by page, with the request that started the scan."""

    store: str
    query: QueryParams
    #: each line, and whether it is a row
    lines: Iterator[tuple[bool, bytes]]


class AsgiService:
    """The routes; each blocking read runs in a thread.

    ``changes`` opens a reader of the committed changes of a store; ``is_ready`` answers probes.
    """

    def __init__(
        self,
        served: ServedApplication,
        answers: QueryHandler,
        changes: Callable[..., ChangeFeed],
        topics: ReadsTopics,
        is_ready: IsReady,
    ) -> None:
        self._served = served
        self._topics = TopicEndpoints(topics, answers.serving)
        self._instance = InstanceEndpoints(served, answers, is_ready)
        self._answers = answers
        self._changes_of = changes
        token = answers.serving.token
        #: the expected token; empty: none is needed
        self._wanted = token.encode() if token else b""
        #: allowed host names of requests; empty: any
        self._hosts = answers.serving.named_hosts()
        self._pages: Cursors[_Pages] = Cursors(answers.lookup.now_ms)
        self._probes, self._asking, self._answering = (
            Threads(2),
            Threads(_ASKING),
            Threads(_ANSWERING),
        )
        self._reading = Threads(max(1, answers.serving.streams))
        #: requests in progress, except probes
        self._requests = 0
        #: requests for changes with open streams
        self._streams: set[Request] = set()

    def app(self) -> Starlette:
        """Return the ASGI application."""
        here, others, documents = self._answering, self._asking, self._instance.documents
        read = ReadEndpoint(self._answers, self._has_token, here, self._refuse_other_host)
        routes = [
            WholePathRoute(READ_PATH, read, methods=["POST"]),  # the most frequent one: first
            WholePathRoute("/", page),
            *(
                WholePathRoute(path, self._probe(one))
                for path, one in self._instance.probes.items()
            ),
            *(WholePathRoute(path, self._endpoint(one, here)) for path, one in documents.items()),
            WholePathRoute("/topics", self._endpoint(self._topics.topics, others)),
            WholePathRoute("/topics/{topic}", self._endpoint(self._topics.newest, others)),
            WholePathRoute("/stores/{store}", self._endpoint(self._range, others)),
            WholePathRoute("/stores/{store}/changes", self._changes),
            WholePathRoute("/stores/{store}/{key:path}", self._endpoint(self._key, others)),
        ]
        return Starlette(routes=routes, exception_handlers={HTTPException: no_route})

    # ------------------------------------------------------------------ authorization and errors

    def _probe(self, found: Callable[[Request], Reason]) -> Any:
        """Serve a probe without a token, and regardless of the number of other requests."""

        async def endpoint(request: Request) -> Response:
            return await self._probes.run(handle_errors, lambda one: health(found(one)), request)

        return endpoint

    def _endpoint(self, handler: Callable[[Request], Response], threads: Threads) -> Any:
        async def endpoint(request: Request) -> Response:
            if not self._has_token(request.scope):
                return unauthorized()
            if (refusal := self._refuse_other_host(request.scope)) is not None:
                return refusal
            if self._requests >= _REQUESTS_MAX:
                return error_response(503, f"{self._requests} requests are in progress: try again")
            self._requests += 1
            try:
                return await threads.run(handle_errors, handler, request)
            except asyncio.CancelledError:  # by the server, when it stops
                return error_response(
                    503, "this instance stops before it has an answer: ask another one"
                )
            finally:
                self._requests -= 1

        return endpoint

    def _has_token(self, scope: Scope) -> bool:
        if not self._wanted:
            return True
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, token = given.partition(b" ")  # case-insensitive (RFC 9110, 11.1)
        return scheme.lower() == _SCHEME and hmac.compare_digest(token.lstrip(b" "), self._wanted)

    def _refuse_other_host(self, scope: Scope) -> Response | None:
        """Refuse a request that names another host, if only this machine may send requests.

        A page of another site can point its own name to this address (DNS rebinding), and its
        requests then have the same origin. They name that site as the host.
        """
        if not self._hosts:
            return None
        given = next((value for name, value in scope["headers"] if name == b"host"), b"")
        host = host_of(given.decode("latin-1"))
        if not host or host in self._hosts or is_loopback(host):
            return None
        return error_response(
            421,
            f"the request names the host {host!r:.100}, and this instance serves only this machine"
            " (serve= has a loopback address and no token). Use that address; give the name of a"
            " proxy in Serving(hosts=)",
        )

    # ------------------------------------------------------------------ stores

    def _key(self, request: Request) -> Response:
        name, query = request.path_params["store"], request.query_params
        spec = self._spec(request, OF_KEYS)
        key = key_of(request.path_params["key"], spec.key, name, is_base64=is_base64(query))
        store = self._remote(request, name)
        partition = number(query, "partition")
        kind = kind_of(spec)
        read, arguments = read_of_key(kind, query, lambda text: element_of(text, spec))
        found = store.answer(read, key, *arguments, partition=partition)
        about = {
            "partition": found.partition,
            "host": found.host,
            "positions": dict(found.positions),
            "lag": found.lag,
        }
        if isinstance(found.value, Iterator):
            rows = list(itertools.islice(found.value, self._answers.serving.page_rows + 1))
            if len(rows) > self._answers.serving.page_rows:
                raise BadRequestError(
                    f"key {key!r:.100} has more than {len(rows) - 1} rows there: use a shorter"
                    f" span with {'= and '.join(kind.key_reads.get(read) or SPAN)}="
                )
            show = row_shower(kind, read)
            return json_response({"rows": [show(row) for row in rows], **about})
        if found.value is None:
            return json_response({"error": "the row does not exist", **about}, 404)
        return json_response({"row": plain(found.value), **about})

    def _range(self, request: Request) -> Response:
        """Return NDJSON: a row per line; each partition's rows are of one commit, named first."""
        name, query = request.path_params["store"], request.query_params
        spec = self._spec(request, OF_RANGES)
        most = self._answers.serving.page_rows
        limit = min(number_or(_PAGE_DEFAULT, query, "limit", least=1), most)
        if request.method == "HEAD":  # a page that is not read must not count as read
            return ndjson_response(iter(()), self._asking)
        if "continue" in query:
            pages = self._pages.taken(
                query["continue"], lambda begun: _check_cursor(request, begun)
            )
            return ndjson_response(_page(pages, limit, self._pages), self._asking)
        store = self._remote(request, name)
        kind = kind_of(spec)
        read, arguments = _read_of_rows(kind, spec, query)
        answers = store.answers_of_all(read, *arguments)
        first = next(answers, None)  # an immediate failure gets a status, not a broken stream
        show = row_shower(kind, read)
        rest = _lines(itertools.chain([] if first is None else [first], answers), show)
        return ndjson_response(_page(_Pages(name, query, rest), limit, self._pages), self._asking)

    def _remote(self, request: Request, name: str) -> RemoteStore[Any, Any, Any, Any]:
        query = request.query_params
        offsets, standbys = at_least(query), flag(query, "standbys")
        if standbys and offsets:
            raise BadRequestError(
                "standbys=true and at_least= exclude each other: standbys do not know positions"
            )
        timeout = self._answers.serving.timeout
        return self._served.remote_store(
            name,
            timeout=timeout,
            at_least=offsets,
            max_age=duration(query, "max_age"),
            standbys=standbys,
        )

    def _spec(self, request: Request, parameters: Collection[str]) -> StoreSpec:
        check_text(request.scope.get("raw_path") or b"", request.scope["query_string"])
        check_names(request.query_params, parameters)
        name = request.path_params["store"]
        places = self._answers.lookup.places
        if name not in places:
            known = sorted(places)
            raise BadRequestError(f"there is no store {name!r:.100}; the topology has {known}")
        return places[name].spec

    async def _changes(self, request: Request) -> Response:
        """Send server-sent events until the client disconnects."""
        if not self._has_token(request.scope):
            return unauthorized()
        if (misnamed := self._refuse_other_host(request.scope)) is not None:
            return misnamed
        if len(self._streams) >= self._answers.serving.streams:
            refusal = f"{len(self._streams)} streams of changes are open, which is the maximum"
            return error_response(503, refusal)
        opened: Any = None

        async def ended() -> None:
            self._streams.discard(request)
            if isinstance(opened, ChangeFeed):
                await self._reading.run_to_its_end(opened.close)

        self._streams.add(request)
        try:
            opened = await self._reading.run(_open_reader, self._reader_of, request)
        finally:
            if not isinstance(opened, ChangeFeed):
                await ended()
        if not isinstance(opened, ChangeFeed):
            return opened  # type: ignore[no-any-return]
        if request.method == "HEAD":  # the client reads nothing, and does not disconnect
            await ended()
            return Response(media_type="text/event-stream")
        return StreamOf(
            self._events(opened),
            ended,
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    def _reader_of(self, request: Request) -> ChangeFeed:
        spec, query = self._spec(request, OF_CHANGES), request.query_params
        after = request.headers.get("last-event-id") or query.get("after", "")
        begin = query.get("from", "now")
        if begin not in ("now", "beginning"):
            raise BadRequestError(f"from must be now or beginning; got {begin!r:.100}")
        return self._changes_of(spec, after, from_beginning=begin == "beginning")

    async def _events(self, reader: ChangeFeed) -> AsyncIterator[bytes]:
        try:
            yield b"retry: 1000\n\n"
            while True:
                yield await self._reading.run(reader.read)
        except LogstateError as exc:
            yield error_event(str(exc))


def _open_reader(reader_of: Callable[[Request], ChangeFeed], request: Request) -> Any:
    """Return a reader, or the error response."""
    found: list[ChangeFeed] = []

    def open_it(request: Request) -> Response:
        found.append(reader_of(request))
        return Response()

    refusal = handle_errors(open_it, request)
    return found[0] if found else refusal


def _read_of_rows(
    kind: StoreKind, spec: StoreSpec, query: QueryParams
) -> tuple[str, tuple[Any, ...]]:
    """Return the read of a request for rows, by an index or by their keys."""
    as_bytes = is_base64(query)

    def parsed(text: str, serde: Serde[Any], what: str) -> Any:
        return key_of(text, serde, spec.name, is_base64=as_bytes, what=what)

    by_index = read_of_index(spec, query, lambda text, serde: parsed(text, serde, "indexed value"))
    if by_index is not None:
        return by_index
    given = (query.get("lower"), query.get("upper"))
    first, last = (None if text is None else parsed(text, spec.key, "key") for text in given)
    return read_of_range(kind, (first, last), query)


def _lines(
    answers: Iterator[Any], show: Callable[[Any], Any] = plain_row
) -> Iterator[tuple[bool, bytes]]:
    """Yield each line, and whether it is a row."""
    try:
        for answer in answers:
            positions = dict(answer.positions)
            about = {"partition": answer.partition, "positions": positions, "lag": answer.lag}
            yield False, msgspec.json.encode(about)
            for row in answer.value:
                yield True, document(show(row))
    except LogstateError as exc:
        yield False, msgspec.json.encode({"error": str(exc)})
        return
    yield False, b'{"end":true}'


def _check_cursor(request: Request, begun: _Pages) -> None:
    """Raise BadRequestError if the request does not match the pages of the cursor."""
    if begun.store != request.path_params["store"]:
        raise BadRequestError(f"this cursor belongs to store {begun.store!r}")
    check_goes_on(request.query_params, begun.query)


def _page(pages: _Pages, limit: int, cursors: Cursors[_Pages]) -> Iterator[bytes]:
    """Yield one page of rows, and the cursor of the next page."""
    left = limit
    for is_row, line in pages.lines:
        yield line + b"\n"
        left -= is_row
        if left == 0:
            yield msgspec.json.encode({"continue": cursors.kept(pages)}) + b"\n"
            return
