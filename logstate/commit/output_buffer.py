"""Send outputs to the brokers at once, or buffer them in memory while a commit is in flight.

Records are processed while a commit waits for the brokers, and their outputs must not become part
of it: the transaction stays open until the commit has finished. So from `defer` to `release`
records for the transaction are buffered in memory and are the first of the next one. At-least-once
outputs are still sent, but only a limited number while those of the commit are delivered: the
producer only reports when nothing at all is left to deliver, which might never happen.

Invariant: between `defer` and `release` this module adds nothing to the transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from logstate.commit.transaction import Transactions
from logstate.contracts.clients import PlainProducer, Step, Steps
from logstate.contracts.records import ProducedFields, ProducedRecord
from logstate.topics.bound_plan import BoundPlan

#: the client would replace event time 0 by the current time
NO_TIMESTAMP = -1
_ONE_MS = 1
#: record fields by number: access by name costs twice as much, and this runs for every record
_topic_of = itemgetter(0)
_TIMESTAMP = ProducedRecord._fields.index("timestamp")
#: at-least-once outputs sent while those of a commit are being delivered
_SENT_BEHIND_MAX = 200


class OutputBuffer:
    """Outputs of one worker. ``plain`` None: all of them go into the transaction."""

    def __init__(
        self, plan: BoundPlan, transactions: Transactions, plain: PlainProducer | None
    ) -> None:
        self._plan = plan
        self._transactions = transactions
        self._plain = plain
        #: outputs for the next transaction; None if they need not be buffered
        self._deferred: list[ProducedFields] | None = None
        #: outputs buffered until the plain producer has delivered; None if there is no such wait
        self._deferred_plain: list[ProducedFields] | None = None
        self._sent_behind = 0

    @property
    def deferred_total(self) -> int:
        """Number of buffered records."""
        return len(self._deferred or ()) + len(self._deferred_plain or ())

    def send(self, records: Sequence[ProducedFields]) -> Steps[None]:
        """Send outputs without waiting for their delivery, or buffer them."""
        if not records:
            return
        wired = [r if r[_TIMESTAMP] else self._with_sent_timestamp(r) for r in records]
        if self._plain is None:
            yield from self._send_in_transaction(wired)
            return
        # Checked once per topic, not per record: usually there is just one.
        topics = set(map(_topic_of, wired))
        internal_topics = {topic for topic in topics if self._plan.is_internal(topic)}
        external = wired
        if internal_topics:
            internal = [r for r in wired if r[0] in internal_topics]
            yield from self._send_in_transaction(internal)
            external = [r for r in wired if r[0] not in internal_topics]
        if self._deferred_plain is not None:
            if self._deferred_plain or self._sent_behind >= _SENT_BEHIND_MAX:
                self._deferred_plain += external
                return
            self._sent_behind += len(external)
        if external:
            yield Step("produce_plain", self._plain.produce, (external,))

    def defer(self) -> None:
        """Begin buffering: later outputs belong to the next transaction."""
        self._deferred = []
        if self._plain is not None:
            self._deferred_plain, self._sent_behind = [], 0

    def flush(self) -> Steps[None]:
        """Wait for the delivery of at-least-once outputs, then send those buffered meanwhile."""
        if self._plain is not None:
            yield Step("flush_plain", self._plain.flush, awaits_brokers=True)
            deferred, self._deferred_plain = self._deferred_plain, None
            if deferred:
                yield Step("produce_plain", self._plain.produce, (deferred,))

    def release(self) -> Steps[None]:
        """End buffering: the buffered outputs begin the next transaction."""
        deferred, self._deferred = self._deferred, None
        if deferred:
            yield from self._transactions.produce(deferred)

    def discard(self) -> None:
        """Drop buffered records: their processing is undone, and the replay produces them again."""
        self._deferred = self._deferred_plain = None

    def _send_in_transaction(self, records: list[ProducedFields]) -> Steps[None]:
        if self._deferred is not None:
            self._deferred += records
        else:
            yield from self._transactions.produce(records)

    def _with_sent_timestamp(self, record: ProducedFields) -> ProducedFields:
        """Return a record of event time 0 with the timestamp that is sent."""
        is_internal = self._plan.is_internal(record[0])
        timestamp = NO_TIMESTAMP if is_internal else _ONE_MS
        return ProducedRecord._make(record)._replace(timestamp=timestamp)
