"""Calls that are made while the worker continues, without a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.errors import LogstateError
from logstate.testing.fake.brokers import FakeBrokers


class FakePending:
    """Takes effect when its result is asked for."""

    def __init__(self, call: Callable[..., Any], arguments: tuple[Any, ...], looks: int) -> None:
        self._call = call
        self._arguments = arguments
        self._looks = looks

    def done(self) -> bool:
        self._looks -= 1
        return self._looks < 0

    def result(self) -> Any:
        return self._call(*self._arguments)


class FakeBackground:
    """See :class:`logstate.contracts.clients.Background`; the cluster says how long calls take."""

    def __init__(self, cluster: FakeBrokers) -> None:
        self._cluster = cluster

    @property
    def processes_between_steps(self) -> bool:
        return self._cluster.background_looks_max > 0

    def start(self, call: Callable[..., Any], arguments: tuple[Any, ...]) -> FakePending:
        looks = self._cluster.background_looks()
        if self._cluster.background_takes_effect_at_once:
            return FakePending(_answered(call, arguments), (), looks)
        return FakePending(call, arguments, looks)

    def close(self) -> None:
        pass


def _answered(call: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[[], Any]:
    """Make the call; returns what gives its result, or raises what it raised."""
    try:
        result = call(*arguments)
    except LogstateError as error:
        raised = error

        def fail() -> Any:
            raise raised

        return fail
    return lambda: result
