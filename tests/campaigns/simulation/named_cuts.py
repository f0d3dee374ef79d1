"""Named cuts that are made while workers die, tasks move and cleaners remove records.

Whoever makes a cut is a process of its own: between any two of its calls the application goes on
under the faults of any schedule, changelogs are compacted, and it may die. A cut that was made must
be of one commit of each task, and its copies must have the rows that the changelogs had at these
positions, whatever was removed since. One that was refused, with a reason, leaves nothing behind;
what is left of one whose maker died can be deleted, and its name is free again.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

from logstate.changelog.cut import decode_cut
from logstate.changelog.cuts import cut_copies, named_cuts
from logstate.changelog.cuts.named_cut import NamedCut
from logstate.changelog.cuts.named_cuts import (
    check_copy,
    create_cut,
    delete_cut,
    find_cut,
    incomplete_cuts,
)
from logstate.contracts.clients import Committed
from logstate.contracts.clock import ManualClock
from logstate.contracts.errors import LogstateError, RetriableError
from logstate.contracts.records import TopicPartition
from logstate.kafka import group_offsets, log_reader
from logstate.testing.fake.client import ProcessKilled
from logstate.testing.fake.partition_log import LogEntry
from logstate.testing.simulation.swarm import Swarm
from tests.campaigns.simulation.fake_logs import FakeLogReader
from tests.campaigns.simulation.mortal_process import MortalProcess
from tests.campaigns.simulation.oracles import Wrong, same
from tests.campaigns.simulation.schedule import Schedule

_BROKERS = "fake:9092"
#: names of cuts, of which each may be deleted and made again
_NAMES = ("first", "second")
_CUTS, _DIES, _GOES_ON, _CLEANS, _DELETES = 0.06, 0.25, 0.5, 0.05, 0.3
_CLEANING_MS = 15_000
#: a cut makes about so many calls
_CALLS_MAX = 60
_LOOKS_MAX = 3

Rows = dict[bytes, bytes]


class NamedCuts(Schedule):
    """A schedule in which cuts are made all the while."""

    def __init__(self, swarm: Swarm) -> None:
        super().__init__(swarm)
        self._cuts: dict[str, NamedCut] = {}
        #: names whose makers have died
        self._left: set[str] = set()
        self._makers = 0
        self._is_cutting = False

    def _run_turn(self, turn: int) -> None:
        rng = random.Random(f"named-cuts-{self.swarm.seed}-{turn}")
        if not self._is_cutting and rng.random() < _CUTS:
            self._is_cutting = True
            self._make_or_delete(rng, turn)
            self._is_cutting = False
        super()._run_turn(turn)

    def _finish(self) -> None:
        super()._finish()
        rng = random.Random(f"last-named-cuts-{self.swarm.seed}")
        for name in sorted(self._left):
            with self._as_process(rng, None):
                self._deleted(name)
        with self._as_process(rng, None):
            self._cuts["last"] = create_cut(_BROKERS, self.application_id, "last")
            same("incomplete cuts", incomplete_cuts(_BROKERS, self.application_id), [])
        for topic in self.cluster.topics:
            if "-logstate-cut" in topic or topic.endswith("-changelog"):
                self.cluster.clean(topic)
        for name, cut in self._cuts.items():
            self._check_cut(name, cut)
        self._check_topics()

    # ------------------------------------------------------------------ making

    def _make_or_delete(self, rng: random.Random, turn: int) -> None:
        name = rng.choice(_NAMES)
        is_there = name in self._cuts or name in self._left
        if is_there and rng.random() > _DELETES:
            return
        self._makers += 1
        calls = rng.randint(1, _CALLS_MAX) if rng.random() < _DIES else None
        act = self._deleted if is_there else self._made
        try:
            with self._as_process(rng, calls, lambda: self._goes_on(rng, turn)):
                act(name)
        except ProcessKilled:
            self.counters["cuts_whose_maker_died"] += 1
            self._cuts.pop(name, None)
            self._left.add(name)
        except LogstateError:
            # The application has not begun, or its commits and cleaners run away from the copying.
            if is_there:
                raise
            self.counters["cuts_refused"] += 1
            self._check_nothing_is_left(name)

    def _made(self, name: str) -> None:
        self._cuts[name] = create_cut(_BROKERS, self.application_id, name)
        self.counters["cuts_made"] += 1

    def _deleted(self, name: str) -> None:
        if name in self._cuts:
            self._check_cut(name, self._cuts.pop(name))
        with_topics = name in incomplete_cuts(_BROKERS, self.application_id)
        if with_topics or name in self._named():
            delete_cut(_BROKERS, self.application_id, name)
        self._left.discard(name)
        self.counters["cuts_deleted"] += 1
        self._check_nothing_is_left(name)

    def _named(self) -> Mapping[str, NamedCut]:
        return {cut.name: cut for cut in named_cuts.list_cuts(_BROKERS, self.application_id)}

    def _goes_on(self, rng: random.Random, turn: int) -> None:
        """Something happens between two calls of a maker."""
        if rng.random() < _CLEANS:
            for topic in list(self.cluster.topics):
                if topic.endswith("-changelog"):
                    self.cluster.clean(topic)
            self.counters["clean"] += 1
            # No cleaner is faster, after the record for which it removes another one.
            self._pass_time(_CLEANING_MS)
        for _ in range(rng.randint(0, 3) if rng.random() < _GOES_ON else 0):
            super()._run_turn(turn)

    @contextmanager
    def _as_process(
        self,
        rng: random.Random,
        calls: int | None,
        before_call: Callable[[], None] = lambda: None,
    ) -> Iterator[None]:
        """The clients of the code inside are those of a process on the cluster in memory."""
        process = MortalProcess(
            self.cluster, f"cuts-{self._makers}", calls, lambda _: before_call()
        )
        reader = FakeLogReader(self.cluster, process, self._sleep)

        def committed_offsets(
            _: object, group: str, partitions: Iterable[TopicPartition]
        ) -> dict[TopicPartition, Committed]:
            wanted = list(partitions)
            offsets = self.cluster.group(group).offsets
            for _look in range(rng.randint(1, _LOOKS_MAX)):
                process.check_alive()
                try:
                    found = offsets.fetch(wanted)
                    break
                except RetriableError:
                    continue
            else:
                found = {tp: offsets.committed.get(tp, Committed(None, "")) for tp in wanted}
            return {tp: one for tp, one in found.items() if one.offset is not None}

        with replaced(
            (log_reader, "log_topics", reader.log_topics),
            (log_reader, "log_bounds", reader.log_bounds),
            (log_reader, "read_partition", reader.read_partition),
            (log_reader, "latest_values", reader.latest_values),
            (group_offsets, "committed_offsets", committed_offsets),
            (named_cuts, "_cluster", lambda _: process),
            (cut_copies, "ThreadPoolExecutor", InOrder),
            (cut_copies, "time", Times(self.clock)),
        ):
            yield

    def _sleep(self, seconds: float) -> None:
        self._everything_arrives()
        self._pass_time(round(seconds * 1_000))

    # ------------------------------------------------------------------ what must hold

    def _check_cut(self, name: str, cut: NamedCut) -> None:
        """It is found, can be read, is of one commit of each task, and has the rows of that."""
        config = {"bootstrap.servers": _BROKERS}
        rng = random.Random(name)
        with self._as_process(rng, None):
            same(f"cut {name!r} as it is stored", find_cut(config, self.application_id, name), cut)
            copies = {store: check_copy(config, cut, store) for store in cut.stores}
        for store, copy in copies.items():
            source = str(copy.entry["changelog_topic"])
            for partition, end in copy.ends.items():
                position = cut.cut.positions[source][partition]
                found = _rows(self._entries(copy.topic, partition), end)
                wanted = _rows(self._entries(source, partition), position)
                self.counters["compared_rows_of_cuts"] += len(wanted)
                if not copy.entry["kind"].endswith("key_value"):
                    # Rows of windows expire; what is left must be as it was.
                    wanted = {key: row for key, row in wanted.items() if key in found}
                same(f"rows of {store!r} in {partition} of {name!r}", found, wanted)
        self._check_commits(cut)

    def _check_commits(self, cut: NamedCut) -> None:
        """What a cut says of a partition, one commit has said, with all its inputs."""
        commits = self.cluster.group(self.application_id).offsets.history
        noted: dict[TopicPartition, set[tuple[int, tuple[tuple[str, int], ...]]]]
        noted = defaultdict(set)
        for commit in commits:
            for partition, committed in commit.items():
                told = decode_cut(committed.metadata, committed_offset=committed.offset or 0).cut
                if told is not None:
                    positions = tuple(sorted(told.positions.items()))
                    noted[partition].add((committed.offset or 0, positions))
        for topic, offsets in cut.cut.inputs.items():
            for partition, offset in offsets.items():
                where = TopicPartition(topic, partition)
                positions = cut.cut.positions
                is_noted = any(
                    at == offset and all(positions[log][partition] == p for log, p in told)
                    for at, told in noted[where]
                )
                self.counters["compared_commits_of_cuts"] += 1
                if not is_noted:
                    raise Wrong(f"cut {cut.name!r}: no commit says {offset} of {where}: {noted}")

    def _check_nothing_is_left(self, name: str) -> None:
        beginning = f"{self.application_id}-logstate-cut.{name}."
        left = [topic for topic in self.cluster.topics if topic.startswith(beginning)]
        same(f"topics of the cut {name!r}, which is not there", left, [])

    def _check_topics(self) -> None:
        """Each copy belongs to a cut."""
        copies = {copy.topic for cut in self._cuts.values() for copy in cut.stores.values()}
        beginning = f"{self.application_id}-logstate-cut."
        found = {topic for topic in self.cluster.topics if topic.startswith(beginning)}
        same("topics of cuts", found, copies)

    def _entries(self, topic: str, partition: int) -> list[LogEntry]:
        return self.cluster.log(TopicPartition(topic, partition)).history


class Times(NamedTuple):
    """In the place of the module: the clock of the cluster."""

    clock: ManualClock

    def monotonic(self) -> float:
        return self.clock.monotonic_ms() / 1_000


class InOrder:
    """In the place of a pool of threads: one call after the other."""

    def __init__(self, *_: object) -> None: ...
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def map(self, call: Callable[[Any], Any], each: Iterable[Any]) -> Iterator[Any]:
        return map(call, each)


@contextmanager
def replaced(*attributes: tuple[Any, str, object]) -> Iterator[None]:
    """Attributes of modules have other values inside."""
    before = [(module, name, getattr(module, name)) for module, name, _ in attributes]
    for module, name, value in attributes:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def _rows(entries: Iterable[LogEntry], end: int) -> Rows:
    """The last committed value of each key below an offset."""
    rows: dict[bytes, bytes | None] = {}
    for entry in entries:
        record, transaction = entry.record, entry.transaction
        is_committed = transaction is None or transaction.is_committed
        if entry.offset < end and record is not None and is_committed:
            rows[record.key() or b""] = record.value()
    return {key: value for key, value in rows.items() if value is not None}
