"""What stores hold at a cut: the prefixes of their inputs that it names, through a test driver.

Each task has a driver of its own, which gets what the task's inputs have below the offsets that the
cut names. Cuts come in their order, so a driver goes on from one to the next. Of the tasks with two
inputs, those of the foreign-key join, each store but one is fed by one of them alone; the join's
result depends on which answer came before which change, so a row that waits for its answer may be
the one of any basket before.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from logstate.changelog.cuts.cut_value import CutValue
from logstate.changelog.rows.suppress_values import buffer_time_of, decode_update
from logstate.contracts.records import TaskId, TopicPartition
from logstate.contracts.stores import StoreSpec
from logstate.contracts.topic_names import changelog_topic, topic_name
from logstate.testing import TopologyTestDriver
from logstate.topology import Topology
from tests.campaigns.spark_chaos.flow import EVENTS, HISTORY, MARK, NO_MARK, PARTITIONS
from tests.campaigns.spark_chaos.logs import Entry

Rows = Counter[tuple[Any, ...]]
Logs = Mapping[TopicPartition, Sequence[Entry]]

#: what is compared of each kind of store; a sequence number only keeps duplicates apart
COLUMNS = {
    "key_value": ("key", "value"),
    "key_value_lru": ("key", "value"),
    "timestamped_key_value": ("key", "value"),
    "timestamped_window": ("key", "window_start", "window_end", "value"),
    "window": ("key", "window_start", "window_end", "value"),
    "session": ("key", "window_start", "window_end", "value"),
    "versioned": ("key", "value", "valid_from", "valid_to"),
    "suppress_buffer": ("key", "window_start", "value", "buffer_time"),
    "outer_join": ("key", "record_time", "left", "right"),
    "join_buffer": ("key", "value"),
    "foreign_key_subscription": ("key", "value"),
}
_JOINED = "priced"


def inputs_of_tasks(topology: Topology, application: str) -> dict[int, list[str]]:
    """The topics that tasks of each sub-topology read, those of others first."""
    return {
        sub.id: [
            topic_name(application, ref.name, is_internal=ref.is_internal)
            for ref in sorted(sub.source_topics, key=lambda ref: ref.is_internal)
        ]
        for sub in topology.sub_topologies
    }


class Oracle:
    """All tasks of an application, replayed up to one cut after the other."""

    def __init__(self, topology: Topology, application: str, logs: Logs) -> None:
        self._specs = topology.stores
        self._tasks = [
            ReplayedTask(topology, application, TaskId(number, n), topics, logs)
            for number, topics in inputs_of_tasks(topology, application).items()
            for n in range(PARTITIONS)
        ]
        self._by_store = {
            spec.name: [task for task in self._tasks if task.id.sub_topology == sub.id]
            for sub in topology.sub_topologies
            for spec in sub.stores
        }

    def close(self) -> None:
        for task in self._tasks:
            task.driver.close()

    def advance(self, cut: CutValue) -> None:
        """Come to a cut. Raises AssertionError where it names less than the one before."""
        for task in self._tasks:
            task.advance(cut)

    def differences(self, store: str, found: Rows) -> str:
        """What is wrong with rows that were read of a store; empty if nothing is."""
        if store == _JOINED:
            return self._differences_of_joined(found)
        spec = self._specs[store]
        wanted = sum((task.rows(spec) for task in self._by_store[store]), Rows())
        missing, strange = wanted - found, found - wanted
        if not missing and not strange:
            return ""
        return (
            f"{store}: {missing.total()} of {wanted.total()} rows are missing {list(missing)[:3]},"
            f" {strange.total()} are strange {list(strange)[:3]}"
        )

    def _differences_of_joined(self, found: Rows) -> str:
        rows = dict(list(found))
        story = [] if len(rows) == found.total() else ["a key has two rows"]
        for task in self._by_store[_JOINED]:
            answered = {key: row.value for key, row in task.driver.store(_JOINED).all()}
            for key, row in task.driver.store("baskets").all():
                value = rows.pop(key, None)
                if (answered.get(key) or "").startswith(f"{row.value} "):
                    is_right = value == answered[key]
                else:  # its answer is under way
                    is_right = value is None or value.split()[0] in task.baskets[key] - {row.value}
                if not is_right:
                    story.append(f"{key} is {value!r}, wanted {answered.get(key)!r}, {row.value!r}")
        story += [f"{key} is not in the input" for key in rows]
        return f"{_JOINED}: {len(story)} rows differ: {story[:3]}" if story else ""


class ReplayedTask:
    """One task in a test driver of its own."""

    def __init__(
        self, topology: Topology, application: str, task: TaskId, topics: list[str], logs: Logs
    ) -> None:
        self.id = task
        self.driver = TopologyTestDriver(topology, application_id=application, commit_every=500)
        self.baskets: dict[str, set[str]] = defaultdict(set)
        self._application = application
        self._topics = topics
        self._logs = logs
        self._read = dict.fromkeys(topics, 0)
        self._marks = Marks()
        self._changelogs: dict[str, tuple[int, dict[bytes, bytes]]] = {}

    def advance(self, cut: CutValue) -> None:
        """Process what the cut has and the driver has not."""
        for topic in self._topics:
            end = cut.inputs.get(topic, {}).get(self.id.partition, 0)
            entries = self._logs.get(TopicPartition(topic, self.id.partition), ())
            at = self._read[topic]
            assert at == 0 or entries[at - 1].offset < end, f"{topic}: a cut ends at {end} again"
            while at < len(entries) and entries[at].offset < end:
                self._pipe(topic, entries[at])
                at += 1
            self._read[topic] = at
        self.driver.advance_wall_clock(0)  # commits
        self.driver.take_outputs()

    def _pipe(self, topic: str, entry: Entry) -> None:
        self.driver.pipe_raw(topic, entry.key, entry.value, entry.time_ms, entry.headers)
        assert entry.key is not None
        if topic.endswith(f"-{EVENTS}"):
            self._marks.add(entry)
        elif topic.endswith("-baskets") and entry.value is not None:
            self.baskets[entry.key.decode()].add(entry.value.decode())

    def rows(self, spec: StoreSpec) -> Rows:
        """What a store holds, as rows of its table."""
        return Rows(self._rows(spec))

    def _rows(self, spec: StoreSpec) -> Iterator[tuple[Any, ...]]:
        kind = spec.kind
        if kind == "versioned":
            yield from self._marks.rows()
        elif kind == "suppress_buffer":
            for key, value in self._logged(spec.name).items():
                new = decode_update(value).new
                assert new is not None
                start = int.from_bytes(key[-8:], "big")
                yield key[:-8].decode(), start, int.from_bytes(new, "big"), buffer_time_of(value)
        elif kind == "foreign_key_subscription":
            yield from self._logged(spec.name).items()
        elif kind == "join_buffer":
            for key, value in self._logged(spec.name).items():
                yield key, without_place(value)
        elif kind == "outer_join":
            for time, is_left, key, values in self.driver.store(spec.name).rows():
                each = tuple(values)
                yield (key, time, each, None) if is_left else (key, time, None, each)
        elif kind in ("window", "timestamped_window", "session"):
            for window, row in self.driver.store(spec.name).all():
                value = row.value if kind == "timestamped_window" else row
                yield window.key, window.start_ms, window.end_ms, value
        else:
            is_timestamped = kind == "timestamped_key_value"
            for key, row in self.driver.store(spec.name).all():
                yield key, row.value if is_timestamped else row

    def _logged(self, store: str) -> dict[bytes, bytes]:
        """The newest value of each key in the driver's own changelog."""
        at, newest = self._changelogs.get(store, (0, {}))
        log = self.driver.changelog(changelog_topic(self._application, store))
        for record in log[at:]:
            assert record.key is not None
            newest.pop(record.key, None)
            if record.value is not None:
                newest[record.key] = record.value
        self._changelogs[store] = len(log), newest
        return newest


class Marks:
    """The versions that marks have: from each to the next of its user."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[int, str]] = defaultdict(dict)
        self._time = -1

    def add(self, entry: Entry) -> None:
        """One of the events. A mark that is older than the history is none."""
        assert entry.key is not None
        assert entry.value is not None
        value = entry.value.decode()
        if not value.startswith(MARK):
            return
        if entry.time_ms >= self._time - HISTORY.total_seconds() * 1000:
            self._versions[entry.key.decode()][entry.time_ms] = value
            self._time = max(self._time, entry.time_ms)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        for user, versions in self._versions.items():
            times = sorted(versions)
            for time, until in zip(times, [*times[1:], None], strict=True):
                if versions[time] != NO_MARK:
                    yield user, versions[time], time, until


def without_place(value: bytes) -> tuple[Any, ...]:
    """What waits in a join's buffer, without the offset that the driver counts otherwise."""
    waiting = decode_update(value)
    return waiting.new, waiting.timestamp
