"""What must hold after a schedule. Each check compares exactly; none is statistical.

O1  outputs equal the reference in order, values, times (at-least-once: see :func:`_check_repeats`)
O2  stores, changelogs and the reference hold the same rows
O3  every input was consumed once, and the committed offsets and clocks say so; the commits say how
    many rows the changelogs have
O4  no local directory holds anything that is not in the changelog below its position

Each counts what it compares, among the counters of its schedule: an oracle that has nothing to look
at is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any, NamedTuple

import msgspec

from logstate.changelog.cut import Cut, cut_key, decode_cut, decode_cut_record
from logstate.changelog.row_counts import PREFIX, is_counted, without_counts
from logstate.changelog.rows.writes import LoggedFields
from logstate.changelog.state import TaskState
from logstate.changelog.stored_meta import StoredMeta
from logstate.contracts.records import TaskId, TopicPartition
from logstate.contracts.stores import StoreSpec
from logstate.contracts.topic_names import cuts_topic
from logstate.testing.fake.fetched import StoredRecord
from logstate.testing.simulation.clock import take_apart
from logstate.testing.simulation.disk import Directory
from logstate.testing.simulation.stored_rows import comparable, row_time, rows_of
from logstate.topology.graph.sub_topology import SubTopology
from tests.campaigns.simulation import flow
from tests.campaigns.simulation.reference import (
    Expected,
    Output,
    Reference,
    Step,
    comparable_clocks,
    new_task,
    numbered,
)
from tests.campaigns.simulation.schedule import Schedule


class Wrong(AssertionError):
    """A promise was broken."""


class CommittedRecord(NamedTuple):
    """A record that counts, and who wrote it."""

    offset: int
    record: StoredRecord
    writer: str


class Oracles:
    """All checks of one schedule."""

    def __init__(self, schedule: Schedule, reference: Reference) -> None:
        self._schedule = schedule
        self._cluster = schedule.cluster
        self._reference = reference
        self._partitions = schedule.partitions
        self._expected: dict[TaskId, Expected] = {}
        self._folds: dict[tuple[TaskId, tuple[int, ...]], dict[str, dict[bytes, bytes]]] = {}
        self._committed: dict[tuple[str, int], list[CommittedRecord]] = {}

    def check(self, *, every_directory: bool) -> None:
        """Raises Wrong with the first promise that does not hold."""
        for sub_topology in self._schedule.topology.sub_topologies:
            for partition in range(self._partitions):
                self._check_task(sub_topology, TaskId(sub_topology.id, partition))
        self._check_repartitioning()
        # Compaction removes what a partial replay would need to equal the history.
        if every_directory and not self._schedule.counters["clean"]:
            for slot in self._schedule.slots:
                for task_id, directory in slot.disk.directories.items():
                    self._check_directory(f"slot {slot.number}", task_id, directory)

    def _count(self, what: str, compared: Sized) -> None:
        self._schedule.counters[f"compared_{what}"] += len(compared)

    # ------------------------------------------------------------------ O1, O2, O3 per task

    def _check_task(self, sub_topology: SubTopology, task_id: TaskId) -> None:
        folded = self._fold(sub_topology, task_id, {})
        trace = self._trace(task_id, folded)
        steps, numbers = self._steps(task_id, trace)
        expected = self._reference.expected(
            self._schedule.swarm.variant, task_id, self._partitions, steps
        )
        self._expected[task_id] = expected
        rows = {
            spec.name: comparable(spec, numbered(spec, folded[spec.name], numbers))
            for spec in sub_topology.stores
        }
        for spec in sub_topology.stores:
            self._count(f"changelog_rows_of_{spec.kind}", rows[spec.name])
        same(f"changelogs of {task_id}", rows, dict(expected.rows))
        counted = {
            PREFIX + spec.name: len(folded[spec.name])
            for spec in sub_topology.stores
            if is_counted(spec)
        }
        self._check_clocks(task_id, expected, bool(steps), counted)
        for topic in flow.OUTPUTS:
            written_here = (topic == "regions") == (task_id.sub_topology == 1)
            if written_here:
                self._check_outputs(topic, task_id, expected, trace)

    def _trace(self, task_id: TaskId, folded: dict[str, dict[bytes, bytes]]) -> list[str]:
        rows = folded[flow.TRACES[task_id.sub_topology]]
        values = {key.decode(): value.decode() for key, value in rows.items()}
        count = int(values.get("n", "0"))
        try:
            trace = [values[f"{i:06d}"] for i in range(count)]
        except KeyError as exc:
            raise Wrong(f"the trace of {task_id} has no entry {exc} of {count}") from exc
        return trace

    def _steps(
        self, task_id: TaskId, trace: Sequence[str]
    ) -> tuple[list[Step], dict[tuple[str, int], int]]:
        """The records behind the coordinates; each input exactly once, each topic in order.

        A step has the number of its record within its topic, not the offset: what else lies in the
        log, markers above all, does not matter to what is computed. Also returns the numbers.
        """
        topics = [flow.ORDERS, flow.PRICES] if task_id.sub_topology == 0 else [flow.REPARTITION]
        inputs = {
            topic: {
                e.offset: e.record
                for e in self._history(topic, task_id.partition)
                if e.record.value() not in self._schedule.passed_over
            }
            for topic in topics
        }
        consumed: dict[str, list[int]] = {topic: [] for topic in topics}
        steps, numbers = [], {}
        for coordinates in trace:
            topic, _, text = coordinates.rpartition(":")
            offset = int(text)
            number = numbers[topic, offset] = len(consumed[topic])
            consumed[topic].append(offset)
            record = inputs[topic].get(offset)
            if record is None:
                raise Wrong(f"{task_id} consumed {coordinates}, which was never committed")
            steps.append(Step(topic, number, record.key(), record.value(), record.timestamp()[1]))
        for topic in topics:
            self._count("inputs", consumed[topic])
            same(f"inputs {topic} of {task_id}", consumed[topic], sorted(inputs[topic]))
        return steps, numbers

    def _check_clocks(
        self,
        task_id: TaskId,
        expected: Expected,
        has_consumed: bool,
        counted: Mapping[str, int],
    ) -> None:
        committed = self._cluster.group(flow.APPLICATION).offsets.committed
        topic = flow.ORDERS if task_id.sub_topology == 0 else flow.REPARTITION
        found = committed.get(TopicPartition(topic, task_id.partition))
        if found is None:
            assert not has_consumed, f"{task_id} has consumed records, and nothing is committed"
            return
        assert found.offset is not None
        cut = decode_cut(found.metadata, committed_offset=found.offset).cut
        assert cut is not None, f"no cut for {task_id}"
        if cut.is_in_cuts_topic:
            cut = self._large_cut(task_id, topic, cut.offset)
        self._count("clocks", expected.clocks)
        clocks = comparable_clocks(without_counts(cut.clocks))
        same(f"clocks of {task_id}", clocks, dict(expected.clocks))
        self._count("numbers_of_rows", counted)
        found_rows = {name: n for name, n in cut.clocks.items() if name.startswith(PREFIX)}
        same(f"numbers of rows of {task_id}", found_rows, dict(counted))

    def _large_cut(self, task_id: TaskId, topic: str, offset: int) -> Cut:
        """The last one that was committed for the task, which must be of that offset."""
        records = [entry.record for entry in self._history(cuts_topic(flow.APPLICATION), 0)]
        value = next(r.value() for r in reversed(records) if r.key() == cut_key(task_id))
        self._count("large_cuts", [value])
        cut = decode_cut_record(value or b"", topic=topic, committed_offset=offset)
        assert cut is not None, f"the large cut of {task_id} is of another offset than {offset}"
        return cut

    def _check_outputs(
        self, topic: str, task_id: TaskId, expected: Expected, trace: Sequence[str]
    ) -> None:
        wanted = list(expected.outputs.get(topic, ()))
        visible = self._history(topic, task_id.partition)
        found = [_output(e) for e in visible]
        self._count(f"outputs_{self._schedule.swarm.guarantee}", found)
        if self._schedule.swarm.guarantee == "exactly_once":
            same(f"outputs {topic}-{task_id.partition}", found, wanted)
            return
        rest = iter(found)
        for i, record in enumerate(wanted):
            if not any(other == record for other in rest):
                raise Wrong(
                    f"outputs {topic}-{task_id.partition}: number {i}, {record}, is missing in"
                    f" order; found {found}"
                )
        if task_id.sub_topology == 1 or self._merge_is_certain(task_id.partition):
            points = self._commit_points(topic, task_id, expected, trace)
            _check_repeats(f"{topic}-{task_id.partition}", visible, wanted, points)

    def _merge_is_certain(self, partition: int) -> bool:
        """Whether every attempt reads the two input topics in the same order.

        Otherwise what is visible of an attempt that did not commit may differ from what did.
        """
        swarm = self._schedule.swarm
        if swarm.arrives_late or swarm.inputs_are_transactional:
            return False
        times = [
            {r.timestamp for r in self._schedule.inputs if (r.topic, r.partition) == (t, partition)}
            for t in (flow.ORDERS, flow.PRICES)
        ]
        return times[0].isdisjoint(times[1])

    def _commit_points(
        self, topic: str, task_id: TaskId, expected: Expected, trace: Sequence[str]
    ) -> set[int]:
        """How many outputs there are at each committed cut of the task."""
        tops = [flow.ORDERS, flow.PRICES] if task_id.sub_topology == 0 else [flow.REPARTITION]
        points = {0}
        for commit in self._cluster.group(flow.APPLICATION).offsets.history:
            offsets = {t: commit.get(TopicPartition(t, task_id.partition)) for t in tops}
            if None in offsets.values():
                continue
            consumed = 0
            for coordinates in trace:
                source, _, text = coordinates.rpartition(":")
                at = offsets[source]
                assert at is not None
                assert at.offset is not None
                consumed += int(text) < at.offset
            points.add(expected.counts[topic][consumed])
        return points

    def _check_repartitioning(self) -> None:
        """What the first sub-topology sent, per origin, is what the second one read."""
        for partition in range(self._partitions):
            wanted = list(self._expected[TaskId(0, partition)].outputs.get(flow.REPARTITION, ()))
            prefix = f"o-{partition}-".encode()
            found: list[Output] = []
            for target in range(self._partitions):
                found += [
                    _output(e)
                    for e in self._history(flow.REPARTITION, target)
                    if (e.record.value() or b"").startswith(prefix)
                ]
            number = {record: i for i, record in enumerate(wanted)}
            self._count("repartition_records", found)
            same(
                f"repartition records from {partition}",
                sorted(found, key=lambda r: number.get(r, -1)),
                wanted,
            )

    # ------------------------------------------------------------------ O2, O4: changelogs, disks

    def _check_directory(self, where: str, task_id: TaskId, directory: Directory) -> None:
        raw = directory.rows.get(b"\x00meta")
        if raw is None:
            return
        meta = msgspec.msgpack.decode(raw, type=StoredMeta)
        sub_topology = self._schedule.topology.sub_topologies[task_id.sub_topology]
        folded = self._fold(sub_topology, task_id, meta.positions)
        for spec in sub_topology.stores:
            if spec.in_memory or spec.name not in meta.positions or spec.name in meta.loading:
                continue  # what is marked as half loaded is emptied when it is opened
            prefix = b"\x01" + meta.numbers[spec.name].to_bytes(2, "big")
            rows = {
                key[len(prefix) :]: value
                for key, value in directory.rows.scan(prefix, prefix + b"\xff" * 40)
            }
            self._count(f"directory_rows_of_{spec.kind}", rows)
            if spec.ttl_ms is not None:
                _check_index(f"{where}: {spec.name!r} in {task_id}", rows, directory, prefix[1:])
            found = comparable(spec, rows)
            if self._schedule.keeps_expired:
                found = self._kept(spec, task_id, found, {})
                folded[spec.name] = self._kept(spec, task_id, folded[spec.name], {})
            same(
                f"{where}: rows of {spec.name!r} in {task_id} at {meta.positions[spec.name]}",
                found,
                self._kept(spec, task_id, comparable(spec, folded[spec.name]), rows),
            )

    def _kept(
        self, spec: StoreSpec, task_id: TaskId, wanted: dict[bytes, bytes], rows: dict[bytes, bytes]
    ) -> dict[bytes, bytes]:
        """Without rows that are gone because they expired: a replay knows the clock beforehand."""
        if spec.retention_ms is None:
            return wanted
        clock = self._expected[task_id].clocks.get(f"store:{spec.name}", -1)
        oldest = clock - spec.retention_ms
        return {k: v for k, v in wanted.items() if k in rows or row_time(spec, k) > oldest}

    def _fold(
        self, sub_topology: SubTopology, task_id: TaskId, positions: dict[str, int]
    ) -> dict[str, dict[bytes, bytes]]:
        """Rows after the committed changelog records below the positions, or after all of them."""
        logged: dict[str, list[CommittedRecord]] = {}
        for spec in sub_topology.stores:
            topic = spec.source_topic or f"{flow.APPLICATION}-{spec.name}-changelog"
            end = positions.get(spec.name)
            history = self._history(topic, task_id.partition)
            logged[spec.name] = [e for e in history if end is None or e.offset < end]
        # A history only grows: where as many records count, they are the same.
        key = (task_id, tuple(map(len, logged.values())))
        if key in self._folds:
            return self._folds[key]
        task = new_task(sub_topology, task_id, self._partitions, computes=False)
        state: TaskState = task.state
        for store, entries in logged.items():
            records = (e.record for e in entries)
            writes: list[LoggedFields] = [
                (r.key() or b"", r.value(), max(r.timestamp()[1], 0), r.headers()) for r in records
            ]
            state.restore(store, writes, 0)
        folded = self._folds[key] = rows_of(state)
        task.close()
        take_apart(task)
        return folded

    def _history(self, topic: str, partition: int) -> list[CommittedRecord]:
        """Every record of a partition that was committed, those included that are gone."""
        found = self._committed.get((topic, partition))
        if found is None:
            log = self._cluster.log_or_none(TopicPartition(topic, partition))
            found = self._committed[topic, partition] = [
                CommittedRecord(e.offset, e.record, e.writer)
                for e in (() if log is None else log.history)
                if e.record is not None and (e.transaction is None or e.transaction.is_committed)
            ]
        return found


def _check_repeats(
    where: str, visible: Iterable[CommittedRecord], wanted: Sequence[Output], points: set[int]
) -> None:
    """At-least-once: a writer goes on where it was, or goes back to a cut that was committed.

    So whatever is repeated was not committed when its writer started over, and no wrong value is
    ever visible.
    """
    numbers: dict[Output, list[int]] = {}
    for number, record in enumerate(wanted):
        numbers.setdefault(record, []).append(number)
    at: dict[str, set[int]] = {}  # where a writer may be: some records are equal
    for entry in visible:
        found = numbers.get(_output(entry))
        if found is None:
            raise Wrong(f"outputs {where}: {_output(entry)} is not in the reference")
        may_follow = points | at.get(entry.writer, set())
        if not (following := {number + 1 for number in found if number in may_follow}):
            raise Wrong(
                f"outputs {where}: {entry.writer} wrote one of the numbers {found}; it was at"
                f" {at.get(entry.writer)}, and commits ended at {sorted(points)}"
            )
        at[entry.writer] = following


def _output(entry: CommittedRecord) -> Output:
    record = entry.record
    return Output(record.key(), record.value(), record.timestamp()[1])


def same(what: str, found: Any, wanted: Any) -> None:
    """Raises Wrong with the places where they differ."""
    if found != wanted:
        raise Wrong(f"{what} differ:{_difference(found, wanted)}")


def _difference(found: Any, wanted: Any, path: str = "") -> str:
    """The places where two nested values differ, one per line."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        keys = list(dict.fromkeys((*found, *wanted)))
        return "".join(
            _difference(found.get(k, _ABSENT), wanted.get(k, _ABSENT), f"{path}[{k!r}]")
            for k in keys
            if found.get(k, _ABSENT) != wanted.get(k, _ABSENT)
        )
    if isinstance(found, list) and isinstance(wanted, list):
        at = next(
            (i for i, (f, w) in enumerate(zip(found, wanted, strict=False)) if f != w),
            min(len(found), len(wanted)),
        )
        return (
            f"\n  {path} first at {at} of {len(found)} (wanted {len(wanted)}):"
            f"\n    found  {found[at : at + 3]}\n    wanted {wanted[at : at + 3]}"
        )
    return f"\n  {path} found {found!r}, wanted {wanted!r}"


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


_ABSENT = _Absent()


def _check_index(
    where: str, rows: Mapping[bytes, bytes], directory: Directory, number: bytes
) -> None:
    """Each row with a TTL has one entry in the index, at its time or before."""
    prefix = b"\x02" + number
    entries = [key[len(prefix) :] for key, _ in directory.rows.scan(prefix, prefix + b"\xff" * 40)]
    same(f"{where}: index", entries, sorted(row[:8] + key for key, row in rows.items()))
    late = [key for key, row in rows.items() if row[:8] > row[8:16]]
    same(f"{where}: rows whose entry is due after them", late, [])
