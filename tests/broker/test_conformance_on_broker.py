"""Recorded topologies on a real broker: three partitions, and a SIGKILL in the middle.

The test driver, which the recordings hold to Kafka Streams' results, says what has to come out.
Without internal topics a task's results depend on its partition alone: every partition's outputs
must equal the driver's on that partition's inputs, record by record. Internal topics mix what
several tasks send, in no fixed order: there the last value of every key and the stores must equal.
"""

from __future__ import annotations

import signal
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer

from logstate.app.application import Application
from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import StoreUnavailableError
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.contracts.stores import StoreSpec
from logstate.kafka.cluster import KafkaCluster
from logstate.testing.driver import TopologyTestDriver
from logstate.topology import Topology
from tests.broker.group_settings import expect_heartbeats_within
from tests.broker.vector_app import application, case_of
from tests.broker.vector_inputs import PARTITIONS, Inputs, inputs_of
from tests.campaigns.toolkit.process import start_module
from tests.conformance.contents import contents
from tests.conformance.settings import driver_settings
from tests.conformance.steps import build_topology
from tests.patience import PATIENCE_S, until

COPIES = 30

#: kinds of stores whose rows can be asked for
READABLE = {"key_value", "timestamped_key_value", "window", "timestamped_window", "session"}
PARTITION_BY_PARTITION = {
    "stateless": "map-values",
    "table": "table-map-values",
    "tumbling": "tumbling-count-grace",
    "session": "session-concat-grace",
    "on close": "tumbling-close-grace",
    "suppress": "suppress-closes-tumbling",
    "stream join": "join-left-grace",
    "table join": "table-table-outer",
    "processor": "process-timestamped-store",
}


class Output(NamedTuple):
    """An output record, without its place."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]


class Scenario:
    """One case on topics of its own."""

    def __init__(self, bootstrap: str, name: str, prefix: str, path: Path) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.prefix = prefix
        self.state_dir = path / "state"
        self.case = case_of(name, prefix)
        self.cluster = KafkaCluster(bootstrap)
        topics = [*self.case.inputs, *self.case.outputs]
        # The times are those of 1970: the broker must not take them for old.
        forever = {"retention.ms": "-1"}
        self.cluster.admin().create_topics(
            [NewTopic(topic, PARTITIONS, 1, forever) for topic in topics]
        )
        expect_heartbeats_within(bootstrap, prefix, timeout_ms=6_000)
        self._reader = self.cluster.log_consumer()
        self._reader.assign(
            {TopicPartition(t, p): 0 for t in self.case.outputs for p in range(PARTITIONS)}
        )
        self.outputs: dict[TopicPartition, list[Output]] = defaultdict(list)
        self.process: subprocess.Popen[bytes] | None = None

    def topology(self) -> Topology:
        return build_topology(self.case)

    def send(self, records: Iterable[ProducedRecord]) -> None:
        """Write records, in batches so small that a fetch brings few of them."""
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "batch.num.messages": 20,
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        for record in records:
            producer.produce(
                record.topic,
                key=record.key,
                value=record.value,
                partition=record.partition,
                timestamp=record.timestamp,
                headers=record.headers,
            )
        assert producer.flush(PATIENCE_S) == 0

    def run_until_killed(self, inputs: Inputs) -> int:
        """Let an instance see everything and die in a transaction; returns how many outputs count.

        Of half of the inputs there are outputs when its doom is sealed; of the other half it can
        commit nothing.
        """
        first, second = inputs.halves()
        self.send(first)
        doom = self.state_dir.with_name("doom")
        self.process = start_module(
            "tests.broker.vector_app",
            *(self.bootstrap, self.name, self.prefix, self.state_dir, doom),
        )
        until(lambda: self.read(0.02) or self.process_ended(), "the first instance has no outputs")
        assert not self.process_ended(), "the first instance ended"
        doom.touch()
        self.send(second)
        assert self.process.wait(PATIENCE_S) == -signal.SIGKILL
        while self.read(0.5):
            pass
        return self.seen

    def process_ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    @property
    def seen(self) -> int:
        """Outputs read so far."""
        return sum(map(len, self.outputs.values()))

    def read(self, timeout_s: float) -> int:
        """Read committed outputs; returns how many came."""
        polled = self._reader.poll(10_000, timeout_s)
        for partition, records in polled.records.items():
            self.outputs[partition] += [
                Output(r.key(), r.value(), r.timestamp()[1], tuple(r.headers() or ()))
                for r in records
            ]
        return sum(map(len, polled.records.values()))

    def read_until(self, is_reached: Callable[[], bool]) -> None:
        """Read outputs until something holds, and a moment longer: there must be no more."""

        def reads_and_is_there() -> bool:
            self.read(0.2)
            return is_reached()

        until(reads_and_is_there, lambda: f"{self.seen} outputs")
        for _ in range(5):
            self.read(0.2)

    def close(self) -> None:
        self._reader.close()
        if self.process is not None:
            self.process.kill()


@pytest.fixture
def scenario_of(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> Iterator[Callable[[str], Scenario]]:
    made: list[Scenario] = []

    def make(name: str) -> Scenario:
        made.append(Scenario(bootstrap, name, unique(name), tmp_path))
        return made[-1]

    yield make
    for scenario in made:
        scenario.close()


class Expected:
    """What the test driver makes of records: outputs by topic, rows by store."""

    def __init__(self, scenario: Scenario, records: Sequence[ProducedRecord]) -> None:
        topology = scenario.topology()
        settings = {**driver_settings(scenario.case.config), "changelog_writes": "commit"}
        self.outputs: dict[str, list[Output]] = defaultdict(list)
        with TopologyTestDriver(topology, **{**settings, "commit_every": 100}) as driver:
            for r in records:
                driver.pipe_raw(r.topic, r.key, r.value, r.timestamp, r.headers)
            for r in driver.outputs:
                output = Output(r.key, r.value, r.timestamp, tuple(r.headers or ()))
                self.outputs[r.topic].append(output)
            self.rows = {name: _rows(spec, driver.store(name)) for name, spec in readable(topology)}


def readable(topology: Topology) -> list[tuple[str, StoreSpec]]:
    return [(name, spec) for name, spec in topology.stores.items() if spec.kind in READABLE]


def _rows(spec: StoreSpec, store: Any) -> list[Any]:
    """The rows of a store in an order of our own, because partitions have none among them."""
    rows: list[Any] = contents(spec, store, ())["rows"]
    return sorted(rows, key=repr)


def rows_of(app: Application) -> dict[str, list[Any]]:
    """Nothing while its tasks are on their way."""
    try:
        return {name: _rows(spec, app.store(name)) for name, spec in readable(app.topology)}
    except StoreUnavailableError:
        return {}


@pytest.mark.parametrize("kind", PARTITION_BY_PARTITION)
def test_each_partition_gives_the_drivers_records_through_a_kill(
    kind: str, scenario_of: Callable[[str], Scenario]
) -> None:
    scenario = scenario_of(PARTITION_BY_PARTITION[kind])
    assert not scenario.topology().internal_topics
    inputs = inputs_of(scenario.case, scenario.prefix, copies=COPIES, fixed_keys=set())
    parts = [Expected(scenario, inputs.of_partition(p)) for p in range(PARTITIONS)]
    total = sum(len(outputs) for part in parts for outputs in part.outputs.values())

    at_kill = scenario.run_until_killed(inputs)
    assert 0 < at_kill < total
    with application(*_places(scenario)) as app:
        scenario.read_until(lambda: scenario.seen >= total)
        expected_rows = {
            name: sorted((row for part in parts for row in part.rows[name]), key=repr)
            for name in parts[0].rows
        }
        until(lambda: rows_of(app) == expected_rows, lambda: f"{rows_of(app)}, {expected_rows}")

    for topic in scenario.case.outputs:
        found = [scenario.outputs[TopicPartition(topic, p)] for p in range(PARTITIONS)]
        for partition, part in enumerate(parts):
            assert _keyed(found[partition]) == _keyed(part.outputs[topic])
        # Without a key the producer may choose any partition.
        assert Counter(o for outputs in found for o in outputs if o.key is None) == Counter(
            o for part in parts for o in part.outputs[topic] if o.key is None
        )


def test_a_foreign_key_join_ends_with_the_drivers_rows_through_a_kill(
    scenario_of: Callable[[str], Scenario],
) -> None:
    scenario = scenario_of("fk-left")
    assert scenario.topology().internal_topics
    inputs = inputs_of(scenario.case, scenario.prefix, copies=COPIES, fixed_keys={"r"})
    whole = Expected(scenario, inputs.of_all())
    (topic,) = scenario.case.outputs
    expected = _last_values(whole.outputs[topic])
    assert len(expected) >= COPIES

    def last_values() -> dict[bytes | None, bytes]:
        partitions = [scenario.outputs[TopicPartition(topic, p)] for p in range(PARTITIONS)]
        return _last_values([output for outputs in partitions for output in outputs])

    at_kill = scenario.run_until_killed(inputs)
    assert at_kill > 0
    assert last_values() != expected
    with application(*_places(scenario)) as app:
        expected_rows = _without_times(whole.rows)
        scenario.read_until(
            lambda: last_values() == expected and _without_times(rows_of(app)) == expected_rows
        )
        assert last_values() == expected
        until(lambda: _without_times(rows_of(app)) == expected_rows)


def _places(scenario: Scenario) -> tuple[str, str, str, Path]:
    return scenario.bootstrap, scenario.name, scenario.prefix, scenario.state_dir


def _keyed(outputs: Sequence[Output]) -> list[Output]:
    return [output for output in outputs if output.key is not None]


def _last_values(outputs: Sequence[Output]) -> dict[bytes | None, bytes]:
    """Key to last value; a deleted key is like one that never was."""
    last = {output.key: output.value for output in outputs}
    return {key: value for key, value in last.items() if value is not None}


def _without_times(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """A row's time tells which of two tables changed last, and that is a race."""
    return {name: [row[:2] for row in found] for name, found in rows.items()}
