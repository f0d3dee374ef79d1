"""Results that the brokers refuse for good, with a production handler that skips.

Some orders are so long that what is joined to them does not fit into its topic. They must be
skipped as if they had not been there, whatever crashes meanwhile: nothing of them is in a store, a
log or an output, and each is counted. Nothing else may be missing.
"""

from __future__ import annotations

from dataclasses import replace

from logstate.task.error_handlers import ErrorHandlers, skip
from logstate.testing.simulation.slot import Slot
from logstate.testing.simulation.upstream import Input
from tests.campaigns.simulation import dataset, flow
from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw

#: of the topic of joined orders, and what makes an order longer
_BYTES_MAX, _PADDING = 300, b"x" * 400
#: how many orders are too long
_TOO_LONG = 2


class NotCounted(AssertionError):
    """A record was skipped in silence."""


class RefusedResults(Schedule):
    """A schedule of the ``table`` variant, whose joins answer a record at once."""

    @classmethod
    def of(cls, seed: int) -> RefusedResults:
        """The schedule of a seed, with other inputs, and no other faults than crashes."""
        drawn = draw(seed)
        crashes = tuple(fault for fault in drawn.faults if fault.kind == "crash_at")
        swarm = replace(drawn, variant="table", guarantee="exactly_once", faults=crashes)
        inputs = _with_long_orders(dataset.inputs(seed % dataset.COUNT))
        made = cls(swarm, inputs=inputs)
        made.passed_over = frozenset(r.value for r in inputs if len(r.value) > len(_PADDING))
        made.cluster.topic("enriched").bytes_max = _BYTES_MAX
        return made

    def _slot(self, number: int) -> Slot:
        slot = super()._slot(number)
        slot.handle_errors(ErrorHandlers(production=skip))
        return slot

    def _finish(self) -> None:
        super()._finish()
        skipped = self.counters["skipped"]
        if skipped < len(self.passed_over):
            raise NotCounted(f"{len(self.passed_over)} records were refused, {skipped} counted")


def _with_long_orders(inputs: list[Input]) -> list[Input]:
    changed = list(inputs)
    orders = [i for i, record in enumerate(inputs) if record.topic == flow.ORDERS]
    for place in orders[len(orders) // 2 :][:_TOO_LONG]:
        record = inputs[place]
        # Of an event time that moves no clock: the reference knows nothing of the record.
        earlier = next(r for r in inputs if r[:2] == record[:2])
        assert earlier is not record, "the first order of its partition sets the clocks"
        head, _, number = record.value.rpartition(b"-")
        long = head + b"-" + _PADDING + b"-" + number
        changed[place] = record._replace(value=long, timestamp=earlier.timestamp)
    return changed
