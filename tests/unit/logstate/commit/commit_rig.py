"""One task, its committer and the cluster they commit to."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from logstate.changelog.cut import Cut, OffsetMetadata, decode_cut
from logstate.commit.commit import CommitReport, Committer
from logstate.commit.transaction import Transactions
from logstate.contracts.clients import Committed, TopicDescription
from logstate.contracts.records import TaskId, TopicPartition
from logstate.task.owned_task import OwnedTask, Stage
from logstate.testing import FakeCluster
from logstate.topics.bound_plan import bind
from logstate.topology import StreamsBuilder
from tests.unit.logstate.commit.step_recorder import StepRecorder
from tests.unit.logstate.plans import described
from tests.unit.logstate.task.task_bench import APPLICATION, TaskBench
from tests.unit.logstate.worker.worker_rig import cluster_of

IN, OTHER = TopicPartition("in", 0), TopicPartition("other", 0)
CHANGELOG = TopicPartition("app-counts-changelog", 0)
EPOCH = 3


def counted(builder: StreamsBuilder) -> None:
    """Two inputs; counts go to a store, every record to "out"."""
    stream = builder.stream("in", key=str, value=str)
    both = stream.merge(builder.stream("other", key=str, value=str))
    both.to("out")
    both.group_by_key().count(store="counts")


class CommitRig:
    """One task, its committer and the cluster they commit to; ``recorder`` has the steps."""

    def __init__(
        self,
        declare: Callable[[StreamsBuilder], object] = counted,
        *,
        at_least_once: bool = False,
        **topics: int,
    ) -> None:
        inputs = {"in": 1, "other": 1, **topics}
        internal = {"app-counts-changelog": 1, "app-cuts": 1, "out": 1}
        self.cluster: FakeCluster = cluster_of({**internal, **inputs})
        self.recorder = StepRecorder()
        self.bench = TaskBench(declare)
        self.plan = bind(
            self.bench.topology,
            APPLICATION,
            {**described(**inputs), "app-counts-changelog": TopicDescription("id-of-log", 1)},
        )
        self.transactions = Transactions(self.cluster, "tx")
        self.recorder.run(self.transactions.initialise())
        self.consumer = self.cluster.group_consumer(group_id=APPLICATION, instance_id=None)
        self.consumer.subscribe(sorted(inputs), lambda _: None)
        self.consumer.poll(10, 0)
        outputs = self.cluster.plain_producer() if at_least_once else None
        self.committer = Committer(self.plan, self.consumer, self.transactions, outputs)
        self.committer.joined()
        partitions = self.bench.task.partitions
        self.owned = OwnedTask(TaskId(0, 0), partitions, EPOCH, self.bench.task)
        for stage in (Stage.RESTORING, Stage.STARTING, Stage.RUNNING):
            self.owned.move_to(stage)
        self.epochs = dict.fromkeys(partitions, EPOCH)
        self.bench.task.start_at(dict.fromkeys(partitions, 0))
        self.recorder.take()

    def process(self, *records: tuple[str, str, int], topic: str = "in") -> None:
        self.bench.add(topic, *records)
        for other in self.bench.task.partitions:
            self.bench.end(other.topic)
        self.bench.task.process(1_000)

    def send_outputs(self) -> None:
        outputs = self.bench.task.outputs.copy()
        self.bench.task.outputs.clear()
        self.recorder.run(self.committer.output_buffer.send(outputs))

    def commit(self) -> CommitReport:
        report = self.recorder.run(self.committer.commit([self.owned], self.epochs))
        assert isinstance(report, CommitReport)
        return report

    def committed(self) -> Mapping[TopicPartition, Committed]:
        return self.cluster.group(APPLICATION).offsets.committed

    def metadata(self, partition: TopicPartition = IN) -> OffsetMetadata:
        found = self.committed()[partition]
        assert found.offset is not None
        return decode_cut(found.metadata, committed_offset=found.offset)

    def cut(self, partition: TopicPartition = IN) -> Cut:
        cut = self.metadata(partition).cut
        assert cut is not None
        return cut
