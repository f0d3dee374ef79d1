"""A logstate application that starts, ends and fails with a Faust application."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import faust
import pytest

from logstate.faust import attach
from tests.patience import PATIENCE_S


class Running:
    """An application that runs until it is stopped, or fails at once."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.application_id = "other"
        self.failure = failure
        self.log: list[str] = []
        self._stopped = threading.Event()

    def run(self, *, handle_signals: bool = True) -> None:
        assert not handle_signals
        self.log.append("started")
        if self.failure is not None:
            raise self.failure
        assert self._stopped.wait(PATIENCE_S)
        self.log.append("closed")

    def stop(self) -> None:
        self._stopped.set()


def service_of(application: Any, name: str) -> Any:
    app = faust.App(name, broker="kafka://nowhere", autodiscover=False)
    attach(app, application)
    return app._extra_services[-1]()


def test_it_starts_and_is_closed_with_the_faust_application() -> None:
    application = Running()

    async def story() -> None:
        service = service_of(application, "shop-a")
        await service.start()
        await service.stop()

    asyncio.run(story())
    assert application.log == ["started", "closed"]


def test_what_stops_it_stops_the_faust_application() -> None:
    application = Running(RuntimeError("no such topic"))

    async def story() -> BaseException | None:
        service = service_of(application, "shop-b")
        await service.start()
        await asyncio.wait_for(service._crashed.wait(), PATIENCE_S)
        reason: BaseException | None = service.crash_reason
        await service.stop()
        return reason

    assert str(asyncio.run(story())) == "no such topic"


def test_two_applications_of_one_id_are_refused() -> None:
    application = Running()
    application.application_id = "shop-c"
    with pytest.raises(ValueError, match="each would read half of the records"):
        service_of(application, "shop-c")
