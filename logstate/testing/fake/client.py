"""What every client of the fake cluster does around a call: lock, life, ordered faults."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from logstate.testing.fake.cluster import FakeCluster
    from logstate.testing.fake.process import FakeProcess

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound="FakeClient")


class FakeClient:
    """A client of one process."""

    #: distinguishes the calls of clients with equal method names, for ordered faults
    fault_prefix = ""

    def __init__(self, cluster: FakeCluster, process: FakeProcess | None) -> None:
        self._cluster = cluster
        self._process = process

    def repeat_late(self, name: str) -> None:
        """A call was sent twice and the second request is still on its way."""


def client_call(method: Callable[Concatenate[C, P], R]) -> Callable[Concatenate[C, P], R]:
    """A method that is a request: raises ProcessKilled in a dead process, and ordered faults."""

    @wraps(method)
    def call(self: C, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._process is not None:
            self._process.check_alive()
        cluster = self._cluster
        with cluster.lock:
            if not cluster.faults:
                result = method(self, *args, **kwargs)
            else:
                fault = cluster.faults.take(self.fault_prefix + method.__name__)
                error = None if fault is None else fault.error
                if fault is not None and fault.is_repeated:
                    self.repeat_late(method.__name__)
                if fault is not None and error is not None and not fault.is_carried_out:
                    raise error
                result = method(self, *args, **kwargs)
                if error is not None:
                    raise error
            cluster.notify()
            return result

    return call
