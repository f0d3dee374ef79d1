"""The server's connections and their memory, counted from the moment they are accepted.

How it works: the listening socket accepts through this module, so a connection counts before its
TLS handshake and until its file is closed. At the limit, a new connection replaces another one: the
oldest that has not sent a request yet, otherwise the oldest idle one, otherwise the oldest whose
client does not read. A reserve beyond the limit is accepted; only probes are served on these, so a
probe gets a connection while all others are in use.

Invariants: open files stay below a quarter of the process's limit, plus the reserve. The bytes that
all connections hold stay below ``BYTES_MAX``; above it, the one that holds most is closed. Whatever
clients do, each kind of line goes to the log at most once a minute.

Everything here runs in the thread of the server's event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

_LOGGER = logging.getLogger(__name__)

#: connections beyond the limit, which only serve probes
RESERVE: Final = 16
#: total bytes of unanswered requests and unread responses
BYTES_MAX: Final = 64 * 1024 * 1024
#: a new connection is not replaced for this time, so that its request can arrive
YOUNG_S: Final = 0.05
#: limit of a TLS handshake
HANDSHAKE_S: Final = 5.0
_NO_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_BLOCKED_S = 0.002
_NO_FILES_S = 0.02
_MINUTE_S = 60.0

FRESH, IDLE, STILL, BUSY = "fresh", "idle", "still", "busy"


def connections_max(wanted: int) -> int:
    """Return the maximum number of connections: as wanted, up to a quarter of the process's files.

    RocksDB and the Kafka clients need the others.
    """
    try:
        import resource
    except ImportError:  # pragma: no cover - Windows has no such limit
        return wanted
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY or wanted <= files // 4:
        return wanted
    found = max(1, files // 4)
    _LOGGER.info(
        "at most %d HTTP connections at a time, not %d as Serving(connections=) says: the process"
        " can open %d files (ulimit -n), and a quarter of them is for HTTP",
        found,
        wanted,
        files,
    )
    return found


class OncePerMinute(logging.Filter):
    """Lets a line of each kind pass once a minute, with the number of dropped ones.

    >>> quiet = OncePerMinute(now_s=lambda: 7.0)
    >>> line = logging.makeLogRecord({"msg": "refused %s", "args": ("one",)})
    >>> quiet.filter(line), quiet.filter(line)
    (True, False)
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        #: kind -> when a line of it passed, and how many were dropped since
        self._passed: dict[tuple[Any, ...], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = record.exc_info[0] if record.exc_info else None
        key, now_s = (record.name, record.msg, kind), self._now_s()
        passed_s, count = self._passed.get(key, (-_MINUTE_S, 0))
        if now_s - passed_s < _MINUTE_S:
            self._passed[key] = passed_s, count + 1
            return False
        self._passed[key] = now_s, 0
        if count:
            record.msg = f"{record.getMessage()} ({count} more lines like this one were dropped)"
            record.args = ()
        return True


_LOGGER.addFilter(OncePerMinute())
#: log of the server about single requests: clients control the number of its lines
REQUESTS_LOGGER = logging.getLogger("logstate.http.requests")
REQUESTS_LOGGER.setLevel(
    logging.INFO
)  # the server checks the level of this logger, not that of its parents
REQUESTS_LOGGER.addFilter(OncePerMinute())


class Accepted(socket.socket):
    """The socket of a connection; it counts until it is closed."""

    def __init__(self, owner: Connections, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._owner = owner
        self.made_s = time.monotonic()
        self.state = FRESH
        #: bytes of requests and responses
        self.held = 0
        self.timer: asyncio.TimerHandle | None = None
        #: closes the connection at once: before there is a protocol, by shutting down the socket
        self.abort: Callable[[], None] = self._close_socket

    def _close_socket(self) -> None:
        with contextlib.suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket like any other, and stop counting it."""
        self._owner.closed(self)
        super().close()


class Connections:
    """The connections of one server."""

    def __init__(self, most: int, bytes_max: int = BYTES_MAX) -> None:
        self.most = most
        self._bytes_max = bytes_max
        self._open: dict[int, Accepted] = {}
        #: state -> connections that can be replaced, the oldest first
        self._places: dict[str, dict[int, Accepted]] = {FRESH: {}, IDLE: {}, STILL: {}}
        self._leaving: set[Accepted] = set()
        self._held = 0
        #: requests in progress, except probes
        self.requests = 0

    @property
    def count(self) -> int:
        """The number of connections with an open file."""
        return len(self._open)

    @property
    def is_full(self) -> bool:
        """Whether only probes are served."""
        return self.count - len(self._leaving) > self.most or 2 * self.requests > self.most

    @property
    def held(self) -> int:
        """Bytes that all connections hold."""
        return self._held

    # ------------------------------------------------------------------ accepting and closing

    def accept(self, accept: Callable[[], tuple[int, Any]], listener: socket.socket) -> Any:
        """Return the next connection. Raise BlockingIOError if one has to be closed before."""
        if self.count >= self.most + RESERVE:
            # They are closed in the next turn of the loop. Several at once, because many wait.
            if not self._make_room(max(RESERVE, self.most // 4)):
                time.sleep(_BLOCKED_S)  # otherwise the loop would spin until one can be closed
            raise BlockingIOError
        try:
            descriptor, address = accept()
        except OSError as error:
            if error.errno not in _NO_FILES:
                raise
            _LOGGER.error(
                "a connection cannot be accepted: %s. The process has no free files (ulimit"
                " -n); an idle connection is closed for it",
                error.strerror,
            )
            self._make_room(RESERVE)
            time.sleep(_NO_FILES_S)
            raise BlockingIOError from error
        made = Accepted(self, listener.family, listener.type, listener.proto, fileno=descriptor)
        self._open[descriptor] = self._places[FRESH][descriptor] = made
        made.timer = asyncio.get_running_loop().call_later(HANDSHAKE_S, self._expire, made)
        if self.count - len(self._leaving) > self.most:
            self._make_room(1)
        return made, address

    def made(self, transport: Any) -> Accepted | None:
        """Register a transport after its handshake; None: another socket's."""
        of_transport = transport.get_extra_info("socket")
        found = None if of_transport is None else self._open.get(of_transport.fileno())
        if found is not None:
            _stop_timer(found)
        return found

    def closed(self, one: Accepted) -> None:
        """Remove a closed connection; another one may get its file number at once."""
        descriptor = one.fileno()
        if self._open.get(descriptor) is not one:
            return
        _stop_timer(one)
        del self._open[descriptor]
        self._leaving.discard(one)
        self._places.get(one.state, {}).pop(descriptor, None)
        self._held -= one.held

    # ------------------------------------------------------------------ state

    def record_state(self, one: Accepted, state: str, held: int) -> None:
        """Record the state of a connection, and how many bytes it holds."""
        descriptor = one.fileno()
        if self._open.get(descriptor) is not one:
            return
        if state != one.state:
            self._places.get(one.state, {}).pop(descriptor, None)
            if state in self._places:
                self._places[state][descriptor] = one
            one.state = state
        self._held += held - one.held
        one.held = held
        if self._held > self._bytes_max:
            largest = max(self._open.values(), key=lambda other: other.held)
            _LOGGER.warning(
                "HTTP connections hold %d bytes of requests and responses, more than %d: the one"
                " with most bytes, %d, is closed",
                self._held,
                self._bytes_max,
                largest.held,
            )
            self._held -= largest.held
            largest.held = 0
            self._evict(largest)

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Count a request that is not a probe's."""
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1

    # ------------------------------------------------------------------ pieces

    def _make_room(self, wanted: int) -> int:
        """Close as many connections, the least important ones first; return how many."""
        many_still = 4 * len(self._places[STILL]) > self.most
        order = (STILL, FRESH, IDLE) if many_still else (FRESH, IDLE, STILL)
        until_s, closed = time.monotonic() - YOUNG_S, 0
        for state in order:
            for one in list(islice(self._places[state].values(), wanted - closed)):
                if one.made_s <= until_s:
                    self._evict(one)
                    closed += 1
        if closed:
            _LOGGER.warning(
                "%d HTTP connections are open, which is the maximum: idle ones, and clients that do"
                " not read, are closed for others. Serving(connections=) sets the number",
                self.most,
            )
        return closed

    def _evict(self, one: Accepted) -> None:
        self._places.get(one.state, {}).pop(one.fileno(), None)
        one.state = BUSY
        self._leaving.add(one)
        one.abort()

    def _expire(self, one: Accepted) -> None:
        one.timer = None
        if one.state == FRESH:
            self._evict(one)


def _stop_timer(one: Accepted) -> None:
    if one.timer is not None:
        one.timer.cancel()
        one.timer = None


class Listener(socket.socket):
    """A listening socket whose connections are counted."""

    connections: Connections

    def accept(self) -> Any:
        """Accept like any socket; raise BlockingIOError if the maximum is reached."""
        return self.connections.accept(self._accept, self)  # type: ignore[attr-defined]
