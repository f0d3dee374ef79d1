"""A logstate application attached to a Faust application: one process, one event loop.

Its workers have separate threads, so neither library waits for the other. They are two consumer
groups and may read the same topics; each reads the other's output like any records. They
end together: a stop of the Faust worker commits and closes the logstate application, too, and if
that one fails, the Faust worker fails with its error.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Protocol

import faust
from mode import Service


class Runnable(Protocol):
    """The methods of ``logstate.Application`` that are used."""

    def run(self, *, handle_signals: bool = True) -> None:
        """Run until it is stopped; raises what stopped it."""

    def stop(self) -> None:
        """Ask it to end."""


def attach(app: faust.App, application: Runnable) -> None:
    """Have the Faust worker of ``app`` run a logstate application; call it before the worker.

    The two must have different ids: one id is one consumer group. Raises ValueError otherwise.
    """
    if getattr(application, "application_id", None) == app.conf.id:
        raise ValueError(
            f"Both applications have the id {app.conf.id!r}, which is their consumer group: each"
            " would read half of the records. Give them different ids; to take tables over, see"
            " logstate.faust.adopt"
        )

    class AttachedApplication(Service):
        """Starts and ends with the Faust application."""

        running: asyncio.Future[None]

        async def on_start(self) -> None:
            # Signals are the Faust worker's.
            call = asyncio.to_thread(application.run, handle_signals=False)
            self.running = asyncio.ensure_future(call)
            self.add_future(self._watch())

        async def _watch(self) -> None:
            # Not cancelled with this service: the thread has to be waited for.
            await asyncio.shield(self.running)

        async def on_stop(self) -> None:
            application.stop()
            with suppress(Exception):  # run() has already reported it
                await self.running

    services: Any = app
    services.service(AttachedApplication)
