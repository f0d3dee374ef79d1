"""The ASGI application of an instance: stores, health and figures, for everybody with the token."""

from __future__ import annotations

import asyncio
import functools
import hmac
import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from logstate.contracts.errors import LogstateError
from logstate.contracts.stores import StoreSpec
from logstate.http.answers import Answers
from logstate.http.changes import ChangeReader
from logstate.http.client import READ_PATH
from logstate.http.cursors import Cursors
from logstate.http.keys import key_of, plain, plain_row
from logstate.http.page import page
from logstate.http.remote_store import RemoteStore
from logstate.http.responses import (
    BadRequestError,
    Reason,
    answered,
    health,
    json_response,
    ndjson_response,
    refused,
)
from logstate.http.wire import ReadRequest

try:
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError("Queries over HTTP need Starlette: pip install 'logstate[http]'.") from error

_BODY_BYTES_MAX = 1024 * 1024
_PAGE_DEFAULT = 100
#: of the topology
_FORMS = {"text": "text/plain", "svg": "image/svg+xml", "mermaid": "text/plain"}

_Lines = Iterator[tuple[bool, bytes]]


class Served(Protocol):
    """What an instance shows of itself."""

    application_id: str

    def live(self) -> Reason: ...
    def ready(self) -> Reason: ...
    def status(self) -> dict[str, Any]: ...
    def metrics(self) -> bytes: ...
    def topology(self, form: str) -> str: ...
    def stores(self) -> list[dict[str, Any]]: ...
    def remote_store(
        self, name: str, at_least: Mapping[str, int], *, standbys: bool
    ) -> RemoteStore: ...
    def changes(self, spec: StoreSpec, after: str, *, from_beginning: bool) -> ChangeReader: ...


class AsgiService:
    """The routes; each blocking read runs in a thread of the server's pool."""

    def __init__(self, served: Served, answers: Answers) -> None:
        self._served = served
        self._answers = answers
        self._token = answers.serving.token
        self._pages: Cursors[_Lines] = Cursors(answers.lookup.now_ms)
        #: of changes, that are open
        self._streams = 0

    def app(self) -> Starlette:
        """The ASGI application."""
        routes = [
            Route("/", page),
            Route("/live", self._of(lambda _: health(self._served.live()), is_open=True)),
            Route("/ready", self._of(lambda _: health(self._served.ready()), is_open=True)),
            Route("/status", self._of(lambda _: json_response(self._served.status()))),
            Route(
                "/metrics",
                self._of(
                    lambda _: Response(
                        self._served.metrics(), media_type="text/plain; version=0.0.4"
                    )
                ),
            ),
            Route("/topology", self._of(self._topology)),
            Route("/stores", self._of(lambda _: json_response({"stores": self._served.stores()}))),
            Route("/stores/{store}", self._of(self._range)),
            Route("/stores/{store}/changes", self._changes),
            Route("/stores/{store}/{key:path}", self._of(self._key)),
            Route(READ_PATH, self._read, methods=["POST"]),
        ]
        return Starlette(routes=routes)

    # ------------------------------------------------------------------ who may ask, and errors

    def _of(self, handler: Callable[[Request], Response], *, is_open: bool = False) -> Any:
        async def endpoint(request: Request) -> Response:
            if not is_open and not self._may(request):
                return self._nobody()
            try:
                return await run_in_threadpool(functools.partial(answered, handler, request))
            except asyncio.CancelledError:  # by the server, when it ends
                return refused(503, "this instance ends before it has an answer: ask another one")

        return endpoint

    def _may(self, request: Request) -> bool:
        if not self._token:
            return True
        given = request.headers.get("authorization", "")
        wanted = f"Bearer {self._token}"
        return hmac.compare_digest(given.encode(), wanted.encode())

    @staticmethod
    def _nobody() -> Response:
        response = refused(401, "the bearer token is missing or another one")
        response.headers["WWW-Authenticate"] = "Bearer"
        return response

    def _topology(self, request: Request) -> Response:
        form = request.query_params.get("as", "text")
        if form not in _FORMS:
            raise BadRequestError(f"as must be one of {', '.join(_FORMS)}; got {form!r:.100}")
        return Response(self._served.topology(form), media_type=_FORMS[form])

    # ------------------------------------------------------------------ stores

    def _key(self, request: Request) -> Response:
        name, query = request.path_params["store"], request.query_params
        spec = self._spec(name)
        is_base64 = query.get("key") == "base64"
        key = key_of(request.path_params["key"], spec.key, name, is_base64=is_base64)
        store = self._remote(request, name)
        partition = _number(query, "partition")
        read, arguments = _read_of_key(spec.kind, query)
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
                    f"key {key!r:.100} has more than {len(rows) - 1} rows there: ask for a shorter"
                    " span with from= and to="
                )
            return json_response({"rows": [plain_row(row) for row in rows], **about})
        if found.value is None:
            return json_response({"error": "there is no such row", **about}, 404)
        return json_response({"row": plain(found.value), **about})

    def _range(self, request: Request) -> Response:
        """NDJSON: a row per line; the rows of a partition are of one commit, told before them."""
        name, query = request.path_params["store"], request.query_params
        spec = self._spec(name)
        store = self._remote(request, name)
        limit = min(_number(query, "limit") or _PAGE_DEFAULT, self._answers.serving.page_rows)
        if limit < 1:
            raise BadRequestError(f"limit must be at least 1; got {limit}")
        if "continue" in query:
            return ndjson_response(_page(self._pages.taken(query["continue"]), limit, self._pages))
        if spec.kind.endswith(("window", "session")):
            ends = (_number(query, "from", 0), _number(query, "to", 2**62))
            read = "find_sessions_of_key_range" if spec.kind == "session" else "fetch_all"
            arguments: tuple[Any, ...] = (None, None, *ends) if spec.kind == "session" else ends
        else:
            keys = (query.get("lower"), query.get("upper"))
            read = "range"
            arguments = tuple(
                None if text is None else key_of(text, spec.key, name, is_base64=False)
                for text in keys
            )
        answers = store.answers_of_all(read, *arguments)
        first = next(answers, None)  # what fails at once gets a status, not a broken stream
        lines = _lines(itertools.chain([] if first is None else [first], answers))
        return ndjson_response(_page(lines, limit, self._pages))

    def _remote(self, request: Request, name: str) -> RemoteStore:
        at_least: dict[str, int] = {}
        for one in request.query_params.getlist("at_least"):
            partition, _, offset = one.rpartition(":")
            if not partition or not offset.isdigit():
                raise BadRequestError(f"at_least must be topic-partition:offset; got {one!r:.100}")
            at_least[partition] = int(offset)
        standbys = _flag(request.query_params, "standbys")
        if standbys and at_least:
            raise BadRequestError(
                "standbys=true and at_least= exclude each other: copies know no positions"
            )
        return self._served.remote_store(name, at_least, standbys=standbys)

    def _spec(self, name: str) -> Any:
        spec = self._answers.specs.get(name)
        if spec is None:
            known = sorted(self._answers.specs)
            raise BadRequestError(f"there is no store {name!r:.100}; the topology has {known}")
        return spec

    async def _changes(self, request: Request) -> Response:
        """Server-sent events, until the reader goes."""
        if not self._may(request):
            return self._nobody()
        if self._streams >= self._answers.serving.streams:
            return refused(503, f"{self._streams} streams of changes are open, which is the most")
        self._streams += 1
        try:
            opened = await run_in_threadpool(_opened, self._reader_of, request)
        finally:
            self._streams -= 1
        if isinstance(opened, Response):
            return opened
        return StreamingResponse(
            self._events(opened),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    def _reader_of(self, request: Request) -> ChangeReader:
        spec, query = self._spec(request.path_params["store"]), request.query_params
        after = request.headers.get("last-event-id") or query.get("after", "")
        begin = query.get("from", "now")
        if begin not in ("now", "beginning"):
            raise BadRequestError(f"from must be now or beginning; got {begin!r:.100}")
        return self._served.changes(spec, after, from_beginning=begin == "beginning")

    async def _events(self, reader: ChangeReader) -> AsyncIterator[bytes]:
        self._streams += 1
        try:
            yield b"retry: 1000\n\n"
            while True:
                yield await run_in_threadpool(reader.read)
        except LogstateError as exc:
            yield b"event: error\ndata: " + msgspec.json.encode({"error": str(exc)}) + b"\n\n"
        finally:
            self._streams -= 1
            reader.close()

    # ------------------------------------------------------------------ between instances

    async def _read(self, request: Request) -> Response:
        if not self._may(request):
            return self._nobody()
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > _BODY_BYTES_MAX:
                return refused(413, f"a request has at most {_BODY_BYTES_MAX} bytes")
        return await run_in_threadpool(functools.partial(answered, self._reply_to, bytes(body)))

    def _reply_to(self, body: bytes) -> Response:
        try:
            request = msgspec.msgpack.decode(body, type=ReadRequest)
        except msgspec.MsgspecError as exc:
            raise BadRequestError(f"no request of an instance: {exc}") from exc
        reply = msgspec.msgpack.encode(self._answers.reply(request))
        return Response(reply, media_type="application/msgpack")


def _opened(reader_of: Callable[[Request], ChangeReader], request: Request) -> Any:
    """A reader, or the response that says why not."""
    found: list[ChangeReader] = []

    def open_it(request: Request) -> Response:
        found.append(reader_of(request))
        return Response()

    refusal = answered(open_it, request)
    return found[0] if found else refusal


def _number(query: Mapping[str, str], name: str, default: int | None = None) -> int | None:
    given = query.get(name)
    if given is None:
        return default
    try:
        return int(given)
    except ValueError:
        raise BadRequestError(f"{name} must be a whole number; got {given!r:.100}") from None


def _flag(query: Mapping[str, str], name: str) -> bool:
    given = query.get(name, "false")
    if given not in ("true", "false"):
        raise BadRequestError(f"{name} must be true or false; got {given!r:.100}")
    return given == "true"


def _read_of_key(kind: str, query: Mapping[str, str]) -> tuple[str, tuple[Any, ...]]:
    """Which read a request for a key means."""
    earliest, latest = _number(query, "from", 0), _number(query, "to", 2**62)
    if kind.endswith("window"):
        start = _number(query, "start")
        return ("fetch_range", (earliest, latest)) if start is None else ("fetch", (start,))
    if kind == "session":
        return "find_sessions", (earliest, latest)
    as_of = _number(query, "as_of")
    return "get", () if as_of is None else (as_of,)


def _lines(answers: Iterator[Any]) -> Iterator[tuple[bool, bytes]]:
    """Each line, and whether it is a row."""
    try:
        for answer in answers:
            positions = dict(answer.positions)
            about = {"partition": answer.partition, "positions": positions, "lag": answer.lag}
            yield False, msgspec.json.encode(about)
            for row in answer.value:
                yield True, msgspec.json.encode(plain_row(row))
    except LogstateError as exc:
        yield False, msgspec.json.encode({"error": str(exc)})
        return
    yield False, b'{"end":true}'


def _page(lines: _Lines, limit: int, cursors: Cursors[_Lines]) -> Iterator[bytes]:
    """So many rows, and where it goes on."""
    left = limit
    for is_row, line in lines:
        yield line + b"\n"
        left -= is_row
        if left == 0:
            yield msgspec.json.encode({"continue": cursors.kept(lines)}) + b"\n"
            return
