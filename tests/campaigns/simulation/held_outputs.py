"""At-least-once outputs that wait beside a commit: hundreds on Kafka, the second one here."""

from __future__ import annotations

from dataclasses import replace

from logstate.commit import output_buffer
from logstate.testing.simulation.swarm import ScheduledFault
from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw

#: outputs that may be sent while those of a commit are waited for
_SENT_BEHIND_MAX = 1
#: calls of a commit, up to the one after which nothing waits any more
_LOSES = ("flush_plain", "produce", "flush_plain", "flush")


def _of_a_commit(fault: ScheduledFault) -> ScheduledFault:
    """Whatever is no crash: an answer that gets lost while outputs wait, and the worker lives."""
    if fault.kind.startswith("crash"):
        return fault
    step = _LOSES[(fault.wait + fault.slot) % len(_LOSES)]
    return replace(fault, kind="lost_reply", step=step, error="abortable", is_of_handover=False)


class HeldOutputs(Schedule):
    """A schedule with at-least-once outputs, whose commits always leave room for records."""

    @classmethod
    def of(cls, seed: int) -> HeldOutputs:
        """The configuration and the faults of a seed."""
        drawn = draw(seed)
        swarm = replace(drawn, guarantee="at_least_once", background_looks_max=3)
        swarm = replace(swarm, fetch_records_max=2, arrives_late=True)
        return cls(replace(swarm, faults=tuple(map(_of_a_commit, drawn.faults))))

    def run(self) -> None:
        usual, output_buffer._SENT_BEHIND_MAX = output_buffer._SENT_BEHIND_MAX, _SENT_BEHIND_MAX
        try:
            super().run()
        finally:
            output_buffer._SENT_BEHIND_MAX = usual
