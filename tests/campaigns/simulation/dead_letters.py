"""Results that the brokers refuse for good, with handlers that send dead letters or try again.

As in :mod:`tests.campaigns.simulation.refused_results` nothing of such a record may be left but its
dead letter, which must be there once: it is in the transaction that skips the record.
"""

from __future__ import annotations

from datetime import timedelta

from logstate.contracts.records import TopicPartition
from logstate.task.error_handlers import ErrorHandlers, dead_letter, retry
from logstate.testing.simulation.slot import Slot
from tests.campaigns.simulation.oracles import same
from tests.campaigns.simulation.refused_results import RefusedResults
from tests.campaigns.simulation.schedule import Schedule

_DEAD_LETTERS = "dead-letters"
_RETRY = retry(3, backoff=timedelta(milliseconds=5), then=dead_letter)


class DeadLetters(RefusedResults):
    """Half of them try three times before."""

    def _slot(self, number: int) -> Slot:
        if self.cluster.topics.get(_DEAD_LETTERS) is None:
            self.cluster.create_topic(_DEAD_LETTERS, 1)
        slot = super()._slot(number)
        handler = _RETRY if self.swarm.seed % 2 else dead_letter
        slot.handle_errors(ErrorHandlers(production=handler, dead_letter_topic=_DEAD_LETTERS))
        slot.configure(dead_letter_topic=_DEAD_LETTERS)
        return slot

    def _finish(self) -> None:
        Schedule._finish(self)  # nothing was skipped
        log = self.cluster.log(TopicPartition(_DEAD_LETTERS, 0))
        found = [
            entry.record.value()
            for entry in log.history
            if entry.record is not None
            and (entry.transaction is None or entry.transaction.is_committed)
        ]
        self.counters["compared_dead_letters"] += len(found)
        same("dead letters", sorted(map(bytes, found)), sorted(self.passed_over))
