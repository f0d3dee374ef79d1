"""The topics of one application: what goes in, and what came out so far."""

from __future__ import annotations

from pathlib import Path

from logstate.admin.handover import check_group_is_empty
from logstate.contracts.clients import NewTopic, run_steps
from logstate.contracts.errors import MembersLiveError, RetriableError
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from logstate.kafka.group_offsets import StableOffsets
from tests.campaigns.takeover.process import Running
from tests.campaigns.takeover.scripts import Input
from tests.patience import until

#: how long a look at the outputs waits for some
_LOOK_S = 0.1
#: what came out: key, value, time in ms
Output = tuple[str, str, int]


class World:
    """The topics of one application, and what came out so far."""

    def __init__(self, bootstrap: str, application_id: str, folder: Path) -> None:
        self.bootstrap, self.application_id, self.folder = bootstrap, application_id, folder
        self._cluster = KafkaCluster(bootstrap)
        self._admin = self._cluster.admin()
        self._inputs = [TopicPartition(f"{application_id}.{one}", 0) for one in ("left", "right")]
        output = TopicPartition(f"{application_id}.out", 0)
        self._admin.create_topics([NewTopic(tp.topic, 1, 1, {}) for tp in (*self._inputs, output)])
        self._output = output
        self._reader = self._cluster.log_consumer()
        self._reader.assign({output: 0})
        self.outputs: list[Output] = []

    def send(self, records: list[Input]) -> None:
        """Write a part to the inputs."""
        producer = self._cluster.plain_producer()
        producer.produce(
            [
                ProducedRecord(
                    f"{self.application_id}.{r.topic}",
                    0,
                    r.key.encode(),
                    r.value.encode(),
                    r.timestamp_ms,
                )
                for r in records
            ]
        )
        producer.flush()
        producer.close()

    def drain(self, read: set[str], process: Running, *, quiet_s: float) -> None:
        """Until all that is read was committed, and nothing comes out any more, or it ended."""
        in_vain = 0  # looks, and no seconds: this process may stand still as well

        def is_drained() -> bool:
            nonlocal in_vain
            if process.is_over:
                return True
            is_idle = process.is_ready() and self._is_committed(read) and self._is_at_end()
            in_vain = 0 if self._take() or not is_idle else in_vain + 1
            return in_vain * _LOOK_S >= quiet_s

        until(is_drained, lambda: f"not drained; {len(self.outputs)} outputs")

    def left_behind(self, read: set[str]) -> int:
        """Records that nobody has committed, once no transaction can change that any more."""
        inputs = self._read_inputs(read)
        ends = self._admin.end_offsets(inputs)
        group = StableOffsets({"bootstrap.servers": self.bootstrap}, self.application_id)
        try:
            found = until(lambda: group.of(inputs), "its last transaction stays open")
        finally:
            group.close()
        return sum(end - found.get(tp, (0, ""))[0] for tp, end in ends.items())

    def wait_until_nobody_lives(self) -> None:
        """What ``logstate handover`` asks: whoever was killed counts until its session is over."""

        def does_nobody_live() -> bool:
            try:
                run_steps(check_group_is_empty(self._admin, self.application_id))
            except MembersLiveError:
                return False
            return True

        until(does_nobody_live, "its members do not go")

    def close(self) -> None:
        """Let go of the clients."""
        self._reader.close()
        self._admin.close()

    def _take(self) -> bool:
        found = self._reader.poll(1_000, _LOOK_S).records.get(self._output, ())
        for record in found:
            key, value = record.key() or b"", record.value() or b""
            self.outputs.append((key.decode(), value.decode(), record.timestamp()[1]))
        return bool(found)

    def _is_at_end(self) -> bool:
        """Whether no transaction hides what comes out."""
        end = self._admin.end_offsets([self._output])[self._output]
        return (self._reader.position(self._output) or 0) >= end

    def _is_committed(self, read: set[str]) -> bool:
        inputs = self._read_inputs(read)
        ends = self._admin.end_offsets(inputs)
        try:
            found = self._admin.committed_so_far(self.application_id, inputs)
        except RetriableError:  # it took too long
            return False
        return all((found[tp].offset or 0) >= end for tp, end in ends.items())

    def _read_inputs(self, read: set[str]) -> list[TopicPartition]:
        return [tp for tp in self._inputs if tp.topic.rpartition(".")[2] in read]
