"""Client calls that may never return, made on a separate thread.

librdkafka ignores the time-out of ``send_offsets_to_transaction``: if the connection over which it
looks for the group's coordinator is lost at the wrong moment, the call waits until the client
happens to reconnect to some broker, which may be never (its issue 5456, found in every version
since 1.4.0). The worker would keep its partitions and process nothing.

Closing a producer is the other such call: it aborts an open transaction, however long that takes.

Invariant: a client whose call hangs is never used or destroyed: the thread in the call still uses
it. That thread holds the last reference, and drops it when the call returns.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from logstate.contracts.errors import FencedError


class CallThread:
    """Makes one call at a time on a thread, and waits for it only for a limited time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.is_hanging = False

    def call(self, function: Callable[[], Any], limit_s: float, doing: str) -> Any:
        """Return the result of the function, or raise its error; FencedError after ``limit_s``.

        The successor of a client that hangs fences it, hence this class of error.
        """
        self.refuse_if_hanging(doing)
        if self._thread is None:
            # A daemon thread: a call that never returns must not block the exit of the process.
            self._thread = threading.Thread(
                target=_make_calls, args=(self._calls, self._results), name=self._name, daemon=True
            )
            self._thread.start()
        self._calls.put(function)
        try:
            result, failure = self._results.get(timeout=limit_s)
        except queue.Empty:
            self.is_hanging = True
            self._calls.put(None)
            raise FencedError(
                f"{doing} did not return within {limit_s:.0f} s: the client has lost a connection"
                " and may never return (librdkafka issue 5456). A new client replaces it and fences"
                " its open transaction"
            ) from None
        if failure is not None:
            raise failure
        return result

    def refuse_if_hanging(self, doing: str) -> None:
        """Raise FencedError if a call of this client still hangs."""
        if self.is_hanging:
            raise FencedError(
                f"{doing} is not possible: an earlier call on this client is still blocked"
            )

    def close(self) -> None:
        """End the thread."""
        if self._thread is not None and not self.is_hanging:
            self._calls.put(None)
            self._thread.join()
            self._thread = None


def _make_calls(
    calls: queue.SimpleQueue[Callable[[], Any] | None],
    results: queue.SimpleQueue[tuple[Any, BaseException | None]],
) -> None:
    while (call := calls.get()) is not None:
        try:
            results.put((call(), None))
        except BaseException as exc:  # noqa: BLE001  raised again where the call was asked for
            results.put((None, exc))
        del call  # drop the last reference to an abandoned client
