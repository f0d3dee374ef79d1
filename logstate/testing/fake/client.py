"""What every client of the fake cluster does around a call: lock, life, ordered faults."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from logstate.testing.fake.cluster import FakeCluster
    from logstate.testing.fake.faults import Faults
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


def _with_fault(
    faults: Faults,
    client: C,
    method: Callable[Concatenate[C, P], R],
    *args: P.args,
    **kwargs: P.kwargs,
) -> R:
    fault = faults.take(client.fault_prefix + method.__name__)
    error = None if fault is None else fault.error
    if fault is not None and fault.is_repeated:
        client.repeat_late(method.__name__)
    if fault is not None and error is not None and not fault.is_carried_out:
        raise error
    result = method(client, *args, **kwargs)
    if error is not None:
        raise error
    return result


def client_call(method: Callable[Concatenate[C, P], R]) -> Callable[Concatenate[C, P], R]:
    """A method that is a request: raises ProcessKilled in a dead process, and ordered faults."""

    @wraps(method)
    def call(self: C, /, *args: P.args, **kwargs: P.kwargs) -> R:
        # A simulation makes millions of these: what costs a call of its own is asked first.
        process = self._process
        if process is not None and process.is_killed:
            process.check_alive()
        cluster = self._cluster
        with cluster.lock:
            if cluster.faults.waiting:
                result = _with_fault(cluster.faults, self, method, *args, **kwargs)
            else:
                result = method(self, *args, **kwargs)
            if cluster.waits:
                cluster.notify()
            return result

    return call
