"""Faults that a test orders: a call that fails, with or without having been carried out.

>>> from logstate.contracts.errors import RetriableError
>>> faults = Faults()
>>> faults.add(Fault("commit", RetriableError("no answer"), is_carried_out=True))
>>> faults.take("commit").is_carried_out, faults.take("commit")
(True, None)
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """The next call of this name goes wrong.

    ``call`` is a method of a client: ``"commit"``, ``"send_offsets"``, ``"poll"``; calls of the log
    consumer are named ``"log_poll"`` and so on, those of the plain producer ``"plain_flush"``.
    ``error`` is raised; None: the call succeeds, which makes sense with ``is_repeated`` only.
    """

    call: str
    error: Exception | None = None
    #: the cluster carried the call out, and only the answer was lost
    is_carried_out: bool = False
    #: of ``commit`` and ``abort``: the client sent the request twice, and the second one is late;
    #: with an error that was not carried out it is the only one that will arrive
    is_repeated: bool = False


class Faults:
    """Faults waiting for their calls."""

    def __init__(self) -> None:
        #: ordered and not taken yet, in order
        self.waiting: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """Wait for the next call of that name."""
        self.waiting.append(fault)

    def take(self, call: str) -> Fault | None:
        """The fault for this call, if there is one."""
        for i, fault in enumerate(self.waiting):
            if fault.call == call:
                return self.waiting.pop(i)
        return None
