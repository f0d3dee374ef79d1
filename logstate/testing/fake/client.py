"""What every client of the fake cluster does around a call: lock, life, ordered faults."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from logstate.contracts.clients import Polled
from logstate.contracts.errors import RetriableError
from logstate.testing.fake.brokers import FakeBrokers
from logstate.testing.fake.faults import Faults

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound="FakeClient")


class ProcessKilled(BaseException):
    """Raised by every client of a killed process.

    Not an ``Exception``: code that survives errors must not survive its own death.
    """


class ProcessLife:
    """Whether a process lives, for its clients to ask."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_killed = False

    def kill(self) -> None:
        """From now on its clients raise ProcessKilled; its member misses its heartbeats.

        What its producers had handed over may still arrive (see ``FakeCluster.arrive``).
        """
        self.is_killed = True

    def check_alive(self) -> None:
        """Raises ProcessKilled in a killed process."""
        if self.is_killed:
            raise ProcessKilled(self.name)


class FakeClient:
    """A client of one process."""

    #: distinguishes the calls of clients with equal method names, for ordered faults
    fault_prefix = ""

    def __init__(self, cluster: FakeBrokers, process: ProcessLife | None) -> None:
        self._cluster = cluster
        self._process = process

    def wait_for(self, check: Callable[[], bool], timeout_s: float) -> bool:
        """As the cluster does; whose process is killed meanwhile does not look again."""
        process, cluster = self._process, self._cluster
        if process is None or not cluster.waits:
            return cluster.wait_for(check, timeout_s)

        def look_alive() -> bool:
            process.check_alive()
            return check()

        return cluster.wait_for(look_alive, timeout_s)

    def repeat_late(self, name: str) -> None:
        """A call was sent twice and the second request is still on its way."""


#: calls that a client answers by itself, whether or not there are brokers
_LOCAL = frozenset(
    [
        "ask_group",
        "assign",
        "begin",
        "close",
        "group_metadata",
        "member_id",
        "pause",
        "position",
        "produce",
        "resume",
        "start",
        "stay",
        "subscribe",
    ]
)


def _while_away(client: C, method: Callable[Concatenate[C, P], R], reason: str) -> Polled:
    """What a call that needs the brokers comes to while they are away."""
    name = method.__name__
    if name == "poll":
        return Polled()
    raise RetriableError(f"{client.fault_prefix}{name} was not answered: {reason}")


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
        # A simulation makes millions of these: a check that needs no call comes first.
        process = self._process
        if process is not None and process.is_killed:
            process.check_alive()
        cluster = self._cluster
        with cluster.lock:
            if cluster.away is not None and method.__name__ not in _LOCAL:
                return _while_away(self, method, cluster.away)  # type: ignore[return-value]
            if cluster.faults.waiting:
                result = _with_fault(cluster.faults, self, method, *args, **kwargs)
            else:
                result = method(self, *args, **kwargs)
            if cluster.waits:
                cluster.notify()
            return result

    return call
