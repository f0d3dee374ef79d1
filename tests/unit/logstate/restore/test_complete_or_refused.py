"""After any loss of a part of a log a restore is complete, or it is refused and changes no row.

A worker on the fake cluster processes records into one store, and trims what it may. Then, or
meanwhile, the changelog or the disk loses a part, and a worker starts with the disk of the last
one, with an older copy of it, with none, or with that of a standby. Either it answers what the last
commit answered, or it raises RestoreError. Where nothing is missing it must answer.

Few examples; ``--hypothesis-profile=long`` tries 10,000.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstate.contracts.errors import RestoreError
from logstate.contracts.records import Record, TopicPartition
from logstate.contracts.stores import StoreSpec
from logstate.restore.standby_assignor import GroupView, Peer
from logstate.task.owned_task import Stage
from logstate.testing import FakeCluster
from logstate.topology import Processor, StreamsBuilder
from tests.examples_tried import at_most
from tests.unit.changelog.store_kinds import KINDS, Input, KindUnderTest
from tests.unit.changelog.test_crash_and_replay import (
    RECORD_CHOICES,
    choices_of,
    kind_named,
    numbers,
)
from tests.unit.logstate.worker.worker_rig import Disk, WorkerRig, cluster_of, copy_of

LOG = TopicPartition("app-store-changelog", 0)
PURGE_MS = 150
#: a worker that neither runs nor fails within so many turns hangs
TURNS_MAX = 80
LOSSES = (
    *("nothing", "compaction", "beginning", "beginning", "beginning", "all", "end"),
    *("topic deleted", "topic recreated"),
)
#: those after which the log still has its end
ONLY_THE_BEGINNING = ("beginning", "all")
MOMENTS = ("running", "stopped", "stopped", "restoring")
DISKS = ("current", "old", "lost", "standby")


class Script(NamedTuple):
    """What happens."""

    inputs: list[Input]
    commit_every: int
    loss: str
    #: of the log, in thousandths
    part: int
    moment: str
    disk: str
    #: after which commit the disk is copied
    copied_after: int
    is_logged: bool


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    length = draw(st.integers(1, 24))
    inputs, now = [], draw(st.sampled_from([1, 5, 61_000]))
    for number in draw(st.lists(numbers(RECORD_CHOICES), min_size=length, max_size=length)):
        key, value, advance, delay, choice = choices_of(number, RECORD_CHOICES)
        now += advance
        inputs.append(Input(key, value, max(1, now - delay), choice))
    return Script(
        inputs,
        draw(st.sampled_from([1, 1, 2, 3])),
        draw(st.sampled_from(LOSSES)),
        draw(st.integers(0, 1_000)),
        draw(st.sampled_from(MOMENTS)),
        draw(st.sampled_from(DISKS)),
        draw(st.integers(0, 12)),
        draw(st.sampled_from([True, True, True, False])),
    )


def declaring(kind: KindUnderTest, spec: StoreSpec) -> Callable[[StreamsBuilder], object]:
    class Into(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            value, choice = record.value.split(",")
            one = Input(record.key, int(value) if value else None, record.timestamp, int(choice))
            kind.process(self.context.store(spec.name), one, self.context)  # type: ignore[arg-type]

    def declare(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=str).process(Into, stores=spec)

    return declare


def rows_of(disk: Disk) -> list[tuple[bytes, bytes]]:
    return [row for rows in disk.values() for row in rows.scan(b"\x01", b"\x02")]


class Story:
    """One script, from the first start to the last one."""

    def __init__(self, kind: KindUnderTest, script: Script) -> None:
        self.kind, self.script = kind, script
        spec = kind.spec
        if not script.is_logged and not spec.in_memory:
            spec = replace(spec, is_logged=False)
        self.spec = spec
        self.declare = declaring(kind, spec)
        self.cluster: FakeCluster = cluster_of({"in": 1})
        self.clock_ms = 0
        self.rig = self._rig("one", Disk())
        self.rig.start().until_running("0_0")
        self.standby: WorkerRig | None = None
        self.old_disk = Disk()

    def _rig(self, name: str, disk: Disk) -> WorkerRig:
        standbys = 1 if self.script.disk == "standby" and self.spec.is_logged else 0
        return WorkerRig(
            self.cluster,
            self.declare,
            name=name,
            disk=disk,
            purge_interval_ms=PURGE_MS,
            standby_replicas=standbys,
        )

    def process(self) -> None:
        script = self.script
        commits = 0
        for number, one in enumerate(script.inputs, 1):
            self.clock_ms = max(self.clock_ms, one.time)
            value = "" if one.value is None else str(one.value)
            text = f"{value},{one.choice}".encode()
            self.cluster.produce("in", one.key.encode(), text, timestamp=one.time)
            if number == len(script.inputs) and script.moment == "running":
                self.lose()
            if number % script.commit_every == 0 or number == len(script.inputs):
                self.rig.commit()
                commits += 1
                if commits == script.copied_after:
                    self.rig.tasks["0_0"].task.state.apply()
                    self.old_disk = copy_of(self.rig.disk)
                self._follow()

    def _follow(self) -> None:
        if not self.rig.config.standby_replicas:
            return
        if self.standby is None:
            self.standby = second = self._rig("two", Disk()).start()
            second.until(lambda: second.observer.is_assigned)
            members = (self.rig, second)
            peers = (
                Peer(r.worker._live.consumer.member_id(), None, r.process.name) for r in members
            )
            group_view = GroupView(tuple(peers))
            for rig in members:
                rig.worker.control.group_view = group_view
        self.standby.turn(3)

    def lose(self) -> None:
        loss, log = self.script.loss, LOG
        if not self.spec.is_logged or loss == "nothing":
            return
        if loss == "compaction":
            if not self.spec.is_versioned:
                self.cluster.clean(log.topic)
            return
        if loss.startswith("topic"):
            if self.script.moment == "stopped":
                gone = loss.removeprefix("topic ")
                if gone == "deleted":
                    self.cluster.delete_topic(log.topic)
                else:
                    self.cluster.recreate_topic(log.topic)
            return
        with self.cluster.lock:
            found = self.cluster.log(log)
            at = found.start + (found.end - found.start) * self.script.part // 1_000
            if loss == "end":
                if self.script.moment != "running":  # brokers refuse what comes after that
                    found.truncate(at)
            else:
                found.delete_before(-1 if loss == "all" else at)

    def restart(self) -> str:
        """Whether the last start is "complete" or "refused"."""
        script = self.script
        expected = self.answers(self.rig)
        self.rig.stop()
        disk = {"current": self.rig.disk, "old": self.old_disk}.get(script.disk, Disk())
        if script.moment == "stopped":
            self.lose()
        rig = self.standby or self._rig("last", disk).start()
        if script.moment == "restoring":
            pending = [True]

            def lose_once(step: Any) -> None:
                if step.name == "restore_poll" and pending:
                    pending.clear()
                    self.lose()

            rig.before = lose_once
        kept = rows_of(rig.disk)
        try:
            for _ in range(TURNS_MAX):
                if rig.stages and set(rig.stages.values()) == {Stage.RUNNING}:
                    break
                rig.turn()
                rig.clock.advance(200)
            else:
                raise AssertionError(f"neither complete nor refused: {rig.stages}")
        except RestoreError:
            if self.standby is None and script.moment != "restoring":
                assert rows_of(rig.disk) == kept
            assert rig.disk.destroyed == []
            return "refused"
        found = self.answers(rig)
        rig.stop()
        assert found == expected
        return "complete"

    def answers(self, rig: WorkerRig) -> Any:
        return self.kind.answers(rig.store("0_0", self.spec.name), self.clock_ms)


def run(kind: KindUnderTest, script: Script) -> str:
    story = Story(kind, script)
    story.process()
    outcome = story.restart()
    is_kept = script.disk == "current" and not story.spec.in_memory
    if story.spec.is_logged and (
        script.loss in ("nothing", "compaction")
        or (is_kept and script.loss in ONLY_THE_BEGINNING and script.moment != "restoring")
    ):
        assert outcome == "complete"
    if not story.spec.is_logged and script.disk in ("current", "lost"):
        assert outcome == ("complete" if is_kept else "refused")
    return outcome


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name.replace(" ", "-"))
@settings(max_examples=at_most(6))
@given(script=scripts())
def test_a_restore_is_complete_or_refused(kind: KindUnderTest, script: Script) -> None:
    run(kind, script)


def test_restores_are_complete_and_restores_are_refused() -> None:
    inputs = [Input(key, 1, 1, 3) for key in "ab"]
    kind = kind_named("key-value")
    script = Script(inputs, 1, "beginning", 500, "stopped", "lost", 0, is_logged=True)
    assert run(kind, script) == "refused"
    assert run(kind, script._replace(disk="current")) == "complete"
    assert run(kind, script._replace(loss="nothing")) == "complete"
    assert run(kind, script._replace(is_logged=False)) == "refused"
    assert run(kind, script._replace(is_logged=False, disk="current")) == "complete"
