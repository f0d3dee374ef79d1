"""An HTTP server for an instance: uvicorn in a thread, without signal handlers."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from typing import Any

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import ConfigError
from logstate.contracts.serving import Serving, host_and_port

try:
    import uvicorn

    from logstate.http.connections import Connections, Listener, connections_max
    from logstate.http.deadlines import with_deadlines
    from logstate.http.responses import error_response
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError("Queries over HTTP need a server: pip install 'logstate[http]'.") from error

_LOGGER = logging.getLogger(__name__)

_THREAD = "logstate-http"
_END_S = 5.0
#: paths that are served regardless of the load
_READY = "/ready"
_PROBES = ("/live", _READY)


def _is_useful(record: logging.LogRecord) -> bool:
    """Whether a line of uvicorn says more than that this server starts or ends."""
    return record.threadName != _THREAD or record.levelno >= logging.WARNING


class Server:
    """Listens from its creation on, so that its address is known before it serves.

    Raises ConfigError if it cannot listen on the address.
    """

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        host, port = host_and_port(serving.bind)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # With the protocol TCP, asyncio sets TCP_NODELAY: otherwise the body of a response would
        # wait 40 ms for the acknowledgment of its head.
        self._socket = Listener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self.connections = Connections(connections_max(serving.connections))
        self._socket.connections = self.connections
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
        except OSError as exc:
            self._socket.close()
            raise ConfigError(
                f"serve={serving.bind!r}: cannot listen: {text_of(exc)}."
                " Another process has the"
                " port, or the address is not one of this machine: choose another, or port 0"
            ) from exc
        port = self._socket.getsockname()[1]
        written = f"[{host}]" if ":" in host else host
        self.address = f"{serving.scheme}://{written}:{port}"
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        #: when readiness was last requested
        self._probed_s = float("-inf")

    def start(self, app: Any) -> None:
        """Serve the application in a thread."""
        serving = self._serving
        config = uvicorn.Config(
            self._with_request_limit(app),
            loop="asyncio",  # another loop would accept connections without counting them
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            http=with_deadlines(serving.timeout.total_seconds(), self.connections),
            timeout_keep_alive=30,
            timeout_graceful_shutdown=2,
            ssl_certfile=None if serving.certificate is None else str(serving.certificate),
            ssl_keyfile=None if serving.private_key is None else str(serving.private_key),
        )
        # Other servers of this process use the same logger, so its level stays unchanged.
        logging.getLogger("uvicorn.error").addFilter(_is_useful)
        self._server = uvicorn.Server(config)
        thread = threading.Thread(
            target=self._server.run,
            kwargs={"sockets": [self._socket]},
            name=_THREAD,
            daemon=True,
        )
        thread.start()
        _LOGGER.info("serving queries at %s", self.address)
        self._thread = thread  # assigned after the start: a thread that failed is not joined

    def _with_request_limit(self, app: Any) -> Any:
        """Return the application with a limit: above it, only probes are served."""
        connections = self.connections

        async def gated(scope: Any, receive: Any, send: Any) -> None:
            path = scope.get("path")
            if path in _PROBES:
                if path == _READY:
                    self._probed_s = time.monotonic()
                await app(scope, receive, send)
            elif connections.is_full:
                response = error_response(
                    503, "there are too many connections or requests: try again"
                )
                response.headers["Connection"] = "close"
                await response(scope, receive, send)
            else:
                with connections.answering():
                    await app(scope, receive, send)

        return gated

    def is_probed(self, within_s: float) -> bool:
        """Return True if readiness was requested lately."""
        return time.monotonic() - self._probed_s < within_s

    def stop(self) -> None:
        """Finish the requests in progress, and stop."""
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(_END_S)
        with contextlib.suppress(OSError):
            self._socket.close()
