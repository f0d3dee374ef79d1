"""A TCP proxy on loopback between all clients and the broker, which can misbehave.

The broker advertises the proxy's port, so every connection of every client goes through it, those
that carry transaction markers from the broker to itself included.
"""

from __future__ import annotations

import asyncio
import random
import threading
from contextlib import suppress

from tests.patience import PATIENCE_S


class Proxy:
    """Forwards connections to ``upstream_port``, which may be set after the start."""

    def __init__(self) -> None:
        self.upstream_port = 0
        self.port = 0
        self.connections_total = 0
        self._is_refusing = False
        self._loop = asyncio.new_event_loop()
        self._flows = asyncio.Event()
        self._open: list[asyncio.StreamWriter] = []
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(PATIENCE_S)

    @property
    def address(self) -> str:
        """``host:port`` for clients."""
        return f"127.0.0.1:{self.port}"

    def close(self) -> None:
        """Cut everything and end the thread."""
        self.refuse()
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    # ------------------------------------------------------------------ misbehaving

    def refuse(self) -> None:
        """Reset every connection, and every new one, until ``heal``."""
        self._is_refusing = True
        self._call(self._reset, 1.0, random.Random(0))

    def refuse_new(self) -> None:
        """Reset every new connection, until ``heal``; those that are open are served."""
        self._is_refusing = True

    def reset_some(self, share: float, rng: random.Random) -> None:
        """Reset a share of the open connections; new ones are served."""
        self._call(self._reset, share, rng)

    def stall(self) -> None:
        """Keep the connections open but move no byte, until ``heal``."""
        self._call(self._flows.clear)

    def heal(self) -> None:
        """Behave."""
        self._is_refusing = False
        self._call(self._flows.set)

    # ------------------------------------------------------------------ in the loop's thread

    def _call(self, function, *arguments) -> None:  # type: ignore[no-untyped-def]
        self._loop.call_soon_threadsafe(function, *arguments)

    async def _listen(self) -> None:
        self._flows.set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        self._server.close()
        serving = asyncio.all_tasks() - {asyncio.current_task()}
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    def _reset(self, share: float, rng: random.Random) -> None:
        for writer in self._open:
            if share == 1.0 or rng.random() < share:
                writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections_total += 1
        if self._is_refusing:
            writer.transport.abort()
            return
        try:
            back, forth = await asyncio.open_connection("127.0.0.1", self.upstream_port)
        except OSError:
            writer.transport.abort()
            return
        self._open += [writer, forth]
        try:
            await asyncio.gather(self._pump(reader, forth), self._pump(back, writer))
        finally:
            for end in (writer, forth):
                self._open.remove(end)
                end.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                await self._flows.wait()
                sink.write(data)
                await sink.drain()
        sink.transport.abort()
