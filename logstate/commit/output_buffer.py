"""Where outputs go: to the brokers at once, or into memory while a commit is under way.

Theory. Records are processed while a commit waits for the brokers, and what they produce must not
become part of it: the transaction stays open until its commit has been carried out. So from `defer`
to `release` the records of the transaction wait in memory and are the first of the next one.
At-least-once outputs go on, but not too many of them while those of the commit are delivered: the
producer tells when nothing at all is left to deliver, which might be never.

Invariant: between `defer` and `release` nothing is added to the transaction from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from logstate.commit.transaction import Transactions
from logstate.contracts.clients import PlainProducer, Step, Steps
from logstate.contracts.records import ProducedFields, ProducedRecord
from logstate.topics.bound_plan import BoundPlan

#: event time 0 would be replaced by the current time on its way through the client
NO_TIMESTAMP = -1
_ONE_MS = 1
#: fields of a record by number: by name they cost twice as much, and this runs for every record
_topic_of = itemgetter(0)
_TIMESTAMP = ProducedRecord._fields.index("timestamp")
#: at-least-once outputs sent while those of a commit are waited for
_SENT_BEHIND_MAX = 200


class OutputBuffer:
    """Outputs of one worker. ``plain`` None puts all of them into the transaction."""

    def __init__(
        self, plan: BoundPlan, transactions: Transactions, plain: PlainProducer | None
    ) -> None:
        self._plan = plan
        self._transactions = transactions
        self._plain = plain
        #: what waits for the next transaction; None where nothing has to
        self._deferred: list[ProducedFields] | None = None
        #: what waits until the plain producer has delivered; None where it is not waited for
        self._deferred_plain: list[ProducedFields] | None = None
        self._sent_behind = 0

    @property
    def deferred_total(self) -> int:
        """Records that wait in memory."""
        return len(self._deferred or ()) + len(self._deferred_plain or ())

    def send(self, records: Sequence[ProducedFields]) -> Steps[None]:
        """Send outputs, so that they travel while processing goes on; or keep them for later."""
        if not records:
            return
        wired = [r if r[_TIMESTAMP] else self._wired(r) for r in records]
        if self._plain is None:
            yield from self._send_in_transaction(wired)
            return
        # Asked once per topic, not per record: mostly there is just the one.
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
        """All outputs of the commit were sent; later ones belong to the next transaction."""
        self._deferred = []
        if self._plain is not None:
            self._deferred_plain, self._sent_behind = [], 0

    def flush(self) -> Steps[None]:
        """Wait for the delivery of at-least-once outputs; what waited behind them is sent."""
        if self._plain is not None:
            yield Step("flush_plain", self._plain.flush, awaits_brokers=True)
            deferred, self._deferred_plain = self._deferred_plain, None
            if deferred:
                yield Step("produce_plain", self._plain.produce, (deferred,))

    def release(self) -> Steps[None]:
        """The commit is over: what was deferred begins the next transaction."""
        deferred, self._deferred = self._deferred, None
        if deferred:
            yield from self._transactions.produce(deferred)

    def discard(self) -> None:
        """What produced the deferred records is undone: they are made again."""
        self._deferred = self._deferred_plain = None

    def _send_in_transaction(self, records: list[ProducedFields]) -> Steps[None]:
        if self._deferred is not None:
            self._deferred += records
        else:
            yield from self._transactions.produce(records)

    def _wired(self, record: ProducedFields) -> ProducedFields:
        """A record of event time 0, as it travels."""
        is_internal = self._plan.is_internal(record[0])
        timestamp = NO_TIMESTAMP if is_internal else _ONE_MS
        return ProducedRecord._make(record)._replace(timestamp=timestamp)
