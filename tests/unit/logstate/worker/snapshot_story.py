"""Snapshots while workers are killed, expelled and started anew: every interleaving by a seed.

Two workers count on both sides of two repartition topics, on the fake cluster. Whoever takes the
snapshot waits for answers, and whenever he does, something happens: a worker makes some steps,
records come, one dies. What he is told in the end is looked up in the changelogs.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Collection, Mapping

from logstate.changelog.commit_of_task import commit_of_task
from logstate.changelog.cuts.snapshots import SnapshotClients, snapshot
from logstate.contracts.clients import Committed, Polled
from logstate.contracts.errors import LogstateError
from logstate.contracts.records import TaskId, TopicPartition
from logstate.contracts.snapshots import SnapshotNote
from logstate.directory.snapshot_link import SnapshotLink, SnapshotsTopic
from logstate.testing import FakeCluster
from logstate.topology import StreamsBuilder
from tests.unit.logstate.task.task_bench import APPLICATION
from tests.unit.logstate.worker.worker_rig import Disk, WorkerRig, cluster_of, send

STORES = ("by-key", "by-letter", "by-all")
_LETTERS = "abcdefg"


def counted_thrice(builder: StreamsBuilder) -> None:
    """By key, behind one repartition topic, and behind another."""
    records = builder.stream("in", key=str, value=str)
    records.group_by_key().count(store="by-key")
    letters = records.select_key(lambda _, value: value).repartition(name="letters", key=str)
    letters.group_by_key().count(store="by-letter")
    letters.group_by(lambda _: "all", name="all", key=str).count(store="by-all")


class Member:
    """A worker with its ear; the ear is driven by hand, too."""

    def __init__(self, cluster: FakeCluster, name: str, disk: Disk) -> None:
        self.name, self.disk = name, disk
        self.rig = WorkerRig(cluster, counted_thrice, name=name, disk=disk, instance_id=name)
        self.rig.start()
        self._clients = contextlib.ExitStack()
        self.link = SnapshotLink(
            SnapshotsTopic(APPLICATION),
            self.rig.process,
            cluster.clock,
            lambda: self.rig.worker.fetch_buffer.barriers,
            lambda: tuple(t for t, stage in self.rig.stages.items() if stage.value == "running"),
        )
        self._ear = self.link._listening(self._clients)

    def hears(self) -> None:
        self.link._serve_once(self._ear, self._clients)


class SnapshotStory:
    """See the module. ``calm``: nobody dies."""

    def __init__(self, seed: int, *, calm: bool = False) -> None:
        self.rng = random.Random(seed)
        self.calm = calm
        self.cluster = cluster_of({"in": 2}, session_timeout_ms=2_000, seed=seed)
        self.sent = self.faults = 0
        self.members = {name: Member(self.cluster, name, Disk()) for name in ("one", "two")}
        for _ in range(40):
            self.something(may_fail=False)

    def taken(self, timeout_s: float = 60.0) -> dict[str, SnapshotNote]:
        """A snapshot; raises SnapshotError where none succeeds."""
        admin, consumer = self.cluster.admin(), self.cluster.log_consumer()
        clients = SnapshotClients(
            APPLICATION,
            admin,
            self,  # type: ignore[arg-type]  # its poll has the world go on
            self.cluster.plain_producer(),
            self.committed,
            self.cluster.clock,
            lambda _: self.something(),
        )
        consumer.assign(admin.end_offsets([clients.partition]))
        self._consumer = consumer
        return snapshot(clients, timeout_s)

    def poll(self, max_records: int, timeout_s: float) -> Polled:
        """Whoever takes the snapshot waits."""
        for _ in range(self.rng.randrange(4)):
            self.something()
        return self._consumer.poll(max_records, timeout_s)

    def committed(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[int, str]]:
        """Of the group, once nothing could change it."""
        self.something()
        with contextlib.suppress(LogstateError):
            found = self.cluster.group(APPLICATION).offsets.fetch(list(partitions))
            return {tp: (c.offset, c.metadata) for tp, c in found.items() if c.offset is not None}
        return {}

    def something(self, *, may_fail: bool = True) -> None:
        """One thing that may happen next."""
        self.cluster.clock.advance(self.rng.choice((0, 1, 5, 20)))
        member = self.rng.choice(list(self.members.values()))
        what = self.rng.random()
        if what < 0.15:
            letters = self.rng.choices(_LETTERS, k=self.rng.randrange(1, 6))
            send(self.cluster, *letters)
            self.sent += len(letters)
        elif what < 0.35:
            member.hears()
        elif may_fail and not self.calm and what < 0.36:
            self._fail(member)
        else:
            member.rig.step(self.rng.randrange(1, 30))

    def _fail(self, member: Member) -> None:
        self.faults += 1
        if self.rng.random() < 0.3:
            group = self.cluster.group(APPLICATION)
            if group.members:
                group.leave(self.rng.choice(list(group.members)))
            return
        member.rig.kill()
        self.members[member.name] = Member(self.cluster, member.name, member.disk)

    # ------------------------------------------------------------------ what is in a snapshot

    def totals(self, notes: Mapping[str, SnapshotNote]) -> dict[str, int]:
        """Of each store, and of the records that the snapshot read from the input."""
        found = dict.fromkeys(STORES, 0) | {"in": 0}
        for task, note in notes.items():
            at = TaskId.parse(task)
            inputs = {topic: Committed(*told) for topic, told in note.committed.items()}
            commit = commit_of_task(inputs, note.cut_record)
            found["in"] += commit.inputs.get("in", 0)
            for topic, position in commit.positions.items():
                store = topic.removeprefix(f"{APPLICATION}-").removesuffix("-changelog")
                if store in STORES:
                    found[store] += self._counted(TopicPartition(topic, at.partition), position)
        return found

    def _counted(self, log: TopicPartition, position: int) -> int:
        rows: dict[bytes, int] = {}
        for record in self.cluster.records(log.topic, log.partition):
            if (record.offset() or 0) < position:
                rows[record.key() or b""] = int.from_bytes((record.value() or b"")[-8:])
        return sum(rows.values())
