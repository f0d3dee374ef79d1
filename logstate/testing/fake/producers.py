"""The producers of the fake cluster: the transactional one, and the plain idempotent one.

Records travel in the background: with ``buffers_sends`` they stay in the producer until a flush, or
until the cluster is asked to let some of them arrive, also after their process was killed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from logstate.contracts.errors import BrokerError, LogstateError
from logstate.contracts.records import ProducedFields, TopicPartition
from logstate.testing.fake.brokers import FakeBrokers
from logstate.testing.fake.client import FakeClient, ProcessLife, client_call
from logstate.testing.fake.group import Group
from logstate.testing.fake.transactions import LateEnd


class FakePlainProducer(FakeClient):
    """See :class:`logstate.contracts.clients.PlainProducer`."""

    fault_prefix = "plain_"

    def __init__(self, cluster: FakeBrokers, process: ProcessLife | None, name: str) -> None:
        super().__init__(cluster, process)
        #: names the writer in the log's entries
        self.name = name
        self._buffer: deque[ProducedFields] = deque()
        self._delivered: dict[TopicPartition, int] = {}
        self._failure: LogstateError | None = None

    @client_call
    def produce(self, records: Sequence[ProducedFields]) -> None:
        for record in records:
            self._cluster.check_size(record)
        self._hand_over(records)

    @client_call
    def flush(self) -> dict[TopicPartition, int]:
        self._send_all()
        delivered, self._delivered = self._delivered, {}
        return delivered

    @client_call
    def close(self) -> None:
        self._forget()

    # ------------------------------------------------------------------ the background

    def arrive(self, count: int) -> None:
        """Let up to ``count`` buffered records reach the log; a failure is raised at a flush."""
        now_ms = self._cluster.now_ms()
        while self._buffer and count > 0:
            count -= 1
            try:
                self._send(self._buffer.popleft(), now_ms)
            except LogstateError as exc:
                self._failure = self._failure or exc
                self._forget()
        if not self._buffer:
            self._cluster.sending.pop(self, None)

    def _hand_over(self, records: Sequence[ProducedFields]) -> None:
        self._buffer.extend(records)
        if self._cluster.buffers_sends:
            self._cluster.sending[self] = None
        else:
            self._send_all()

    def _send_all(self) -> None:
        self.arrive(len(self._buffer))
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _send(self, record: ProducedFields, now_ms: int) -> None:
        partition = self._cluster.partition_of(record)
        offset = self._append(partition, record, now_ms)
        if record[1] is not None:  # its producer chose it
            self._delivered[partition] = offset + 1

    def _append(self, partition: TopicPartition, record: ProducedFields, now_ms: int) -> int:
        return self._cluster.append(partition, record, now_ms, writer=self.name)

    def _forget(self) -> None:
        self._buffer.clear()
        self._cluster.sending.pop(self, None)


class FakeTransactionalProducer(FakePlainProducer):
    """One transactional id (see :class:`logstate.contracts.clients.TransactionalProducer`)."""

    fault_prefix = ""

    def __init__(
        self, cluster: FakeBrokers, process: ProcessLife | None, transactional_id: str
    ) -> None:
        super().__init__(cluster, process, transactional_id)
        self._epoch: int | None = None
        self._is_open = False
        self._is_suspect = False

    @client_call
    def init_transactions(self) -> None:
        self._epoch = self._cluster.transactions.initialise(self.name, self._cluster.now_ms())

    @client_call
    def begin(self) -> None:
        if self._epoch is None or self._is_open:
            raise BrokerError("begin() is called once per transaction, after init_transactions()")
        self._is_open = True

    @client_call
    def produce(self, records: Sequence[ProducedFields]) -> None:
        if not self._is_open:
            raise BrokerError("produce() outside a transaction")
        for record in records:
            self._cluster.check_size(record)
        self._hand_over(records)

    @client_call
    def send_offsets(
        self, offsets: Mapping[TopicPartition, tuple[int, str]], group_metadata: object
    ) -> None:
        self._send_all()
        assert isinstance(group_metadata, tuple)
        group, member_id, epoch = group_metadata
        assert isinstance(group, Group)
        self._cluster.transactions.check(self.name, self._live_epoch)
        group.check_member(member_id, epoch)
        self._cluster.transactions.add_offsets(
            self.name, self._live_epoch, group.offsets, offsets, self._cluster.now_ms()
        )

    @client_call
    def commit(self) -> None:
        self._send_all()
        self._end(commits=True)

    @client_call
    def abort(self) -> None:
        self._forget()
        self._failure = None
        self._end(commits=False)

    def must_be_replaced(self) -> bool:
        return self._is_suspect

    def repeat_late(self, name: str) -> None:
        self._is_suspect = True
        self._cluster.transactions.late.append(
            LateEnd(self.name, self._live_epoch, commits=name == "commit")
        )

    @property
    def _live_epoch(self) -> int:
        if self._epoch is None:
            raise BrokerError("init_transactions() comes first")
        return self._epoch

    def _end(self, *, commits: bool) -> None:
        if not self._is_open:
            raise BrokerError("no transaction is open")
        self._is_open = False
        self._delivered = {}
        self._cluster.transactions.end(
            self.name, self._live_epoch, self._cluster.now_ms(), commits=commits
        )

    def _append(self, partition: TopicPartition, record: ProducedFields, now_ms: int) -> int:
        cluster, epoch = self._cluster, self._live_epoch
        log = cluster.log(partition)
        transaction = cluster.transactions.add_partition(self.name, epoch, partition, log, now_ms)
        return cluster.append(partition, record, now_ms, writer=self.name, transaction=transaction)
