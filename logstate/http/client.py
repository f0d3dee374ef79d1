"""Asks other instances: httpx, with connections that are kept."""

from __future__ import annotations

import ssl

import msgspec

from logstate.contracts.errors import StoreAccessError, StoreUnavailableError
from logstate.contracts.serving import Serving
from logstate.http.answers import MisdirectedError
from logstate.http.cursors import CursorGoneError
from logstate.http.wire import ReadReply, ReadRequest

try:
    import httpx
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError(
        "Queries to other instances need a client: pip install 'logstate[http]'."
    ) from error

READ_PATH = "/instances/read"
#: a page of rows is not larger than this, whatever comes
REPLY_BYTES_MAX = 64 * 1024 * 1024
#: a socket takes no time-out above 24 days
_ANSWER_LIMIT_S = 86_400.0


class Client:
    """From any thread."""

    def __init__(self, serving: Serving, transport: httpx.BaseTransport | None = None) -> None:
        headers = {"Authorization": f"Bearer {serving.token}"} if serving.token else {}
        verify = (
            True
            if serving.authority is None
            else ssl.create_default_context(cafile=str(serving.authority))
        )
        self._client = httpx.Client(
            headers=headers, verify=verify, transport=transport, trust_env=False
        )

    def __call__(self, host: str, request: ReadRequest, timeout_s: float) -> ReadReply:
        body = msgspec.msgpack.encode(request)
        try:
            with self._client.stream(
                "POST", host + READ_PATH, content=body, timeout=min(timeout_s, _ANSWER_LIMIT_S)
            ) as response:
                content = _content(host, response)
                status = response.status_code
        except httpx.HTTPError as exc:
            raise StoreUnavailableError(
                f"{host} does not answer: {type(exc).__name__}: {exc}"
            ) from exc
        if status == 200:
            return msgspec.msgpack.decode(content, type=ReadReply)
        raise _refusal(host, status, content)

    def close(self) -> None:
        """Its connections."""
        self._client.close()


def _content(host: str, response: httpx.Response) -> bytes:
    found = bytearray()
    for part in response.iter_bytes():
        found += part
        if len(found) > REPLY_BYTES_MAX:
            raise StoreAccessError(
                f"{host} sends a page of more than {REPLY_BYTES_MAX} bytes; lower its page_rows"
            )
    return bytes(found)


def _refusal(host: str, status: int, content: bytes) -> Exception:
    try:
        reason = str(msgspec.json.decode(content)["error"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        reason = content[:200].decode("utf-8", "replace")
    said = f"{host} answers {status}: {reason}"
    if status == 421:
        return MisdirectedError(said)
    if status == 410:
        return CursorGoneError(said)
    if status in (429, 500, 502, 503, 504):
        return StoreUnavailableError(said)
    if status == 401:
        said += ". Instances need the same Serving(token=...)"
    return StoreAccessError(said)
