"""One's own topology under the simulator: what is right passes, what is planted is named."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from logstate.contracts.errors import ConfigError
from logstate.contracts.records import Record
from logstate.testing import SimulationFailed, simulate
from logstate.topology import (
    Processor,
    ProcessorContext,
    StreamsBuilder,
    Topology,
    key_value_store,
)

INPUTS = [("clicks", key, "home", 10 * n) for n, key in enumerate("abcabcaabbccab" * 2)]


def counting(aggregator: object = None) -> Topology:
    """Counts behind a repartition topic."""
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", key=str, value=str)
    grouped = clicks.group_by(lambda key, value: value + key, key=str)
    totals = grouped.aggregate(
        lambda: 0,
        aggregator or (lambda key, value, total: total + 1),  # type: ignore[arg-type]
        value=int,
        store="totals",
        name="adding",
    )
    totals.to_stream().to("totals", key=str, value=int)
    return builder.build()


class Forgetful(Processor[str, str, str, int]):
    """Counts in an attribute, which no restart brings back."""

    def init(self, context: ProcessorContext) -> None:
        self.context, self.count = context, 0

    def process(self, record: Record[str, str]) -> None:
        self.count += 1
        self.context.forward(Record(record.key, self.count, record.timestamp))


def test_a_topology_that_is_deterministic_passes() -> None:
    result = simulate(counting(), INPUTS, schedules=12)
    assert result.ok
    assert result.schedules == 12
    assert result.counters["crashes"] > 10
    assert result.counters["outputs_compared"] > 12 * len(INPUTS)
    assert result.counters["rows_compared"] >= 12 * 3
    assert "all as without interruptions" in str(result)


def test_a_global_counter_in_an_aggregator_is_found_and_its_operator_named() -> None:
    calls = itertools.count()
    planted = counting(lambda key, value, total: total + next(calls))
    with pytest.raises(SimulationFailed) as failed:
        simulate(planted, INPUTS, schedules=200)
    assert failed.value.simulation.operator == "adding"
    assert "operator 'adding', declared at" in str(failed.value)
    assert "again: simulate(topology, inputs, schedules=1, seed=" in str(failed.value)


def test_what_a_processor_keeps_in_an_attribute_is_found_by_a_crash_and_told_shortly() -> None:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", key=str, value=str)
    clicks.process(Forgetful, name="forgetful").to("counts", key=str, value=int)
    result = simulate(builder.build(), INPUTS, schedules=200, raises=False)
    assert not result.ok
    assert result.operator == "forgetful"
    story = str(result)
    assert "\n  2. " not in story, story
    assert story.count("clicks-0: ") + story.count("clicks-1: ") <= 3, story


class Keeping(Processor[str, str, str, int]):
    """Writes into its store what it counts in an attribute, and hands nothing on."""

    def init(self, context: ProcessorContext) -> None:
        self.store, self.count = context.store("kept"), 0

    def process(self, record: Record[str, str]) -> None:
        self.count += 1
        self.store.put(record.key, self.count)


class Reading(Processor[str, str, str, int]):
    """Hands on what another one has written."""

    def init(self, context: ProcessorContext) -> None:
        self.context = context

    def process(self, record: Record[str, str]) -> None:
        kept = self.context.store("kept").get(record.key)
        self.context.forward(Record(record.key, kept, record.timestamp))


@pytest.mark.slow
def test_an_operator_that_only_writes_a_store_is_named_and_not_the_one_that_reads_it() -> None:
    builder = StreamsBuilder()
    builder.add_store(key_value_store("kept", str, int))
    clicks = builder.stream("clicks", key=str, value=str)
    clicks.process(Keeping, stores="kept", name="keeping")
    clicks.process(Reading, stores="kept", name="reading").to("counts", key=str, value=int)
    result = simulate(builder.build(), INPUTS, schedules=200, raises=False)
    assert not result.ok
    assert result.operator == "keeping"
    assert "kept.put('" in str(result)


class Reporting(Processor[str, str, str, int]):
    """Counts in a store, and says how many there are every two seconds of the wall clock."""

    def init(self, context: ProcessorContext) -> None:
        self.context, self.store, self.reports = context, context.store("counts"), 0
        context.schedule(timedelta(seconds=2), "wall_clock", self.report)

    def process(self, record: Record[str, str]) -> None:
        self.store.put(record.key, (self.store.get(record.key) or 0) + 1)

    def report(self, time_ms: int) -> None:
        for key, count in self.store.all():
            self.context.forward(Record(key, count, time_ms))


class Numbering(Reporting):
    """Numbers its reports in an attribute."""

    def report(self, time_ms: int) -> None:
        self.reports += 1
        self.context.forward(Record("all", self.reports, time_ms))


def reporting(processor: type[Reporting]) -> Topology:
    builder = StreamsBuilder()
    builder.add_store(key_value_store("counts", str, int))
    clicks = builder.stream("clicks", key=str, value=str)
    reports = clicks.process(processor, stores="counts", name="reporting")
    reports.to("reports", key=str, value=int)
    return builder.build()


@pytest.mark.slow
@pytest.mark.no_cover  # many schedules: the others cover the same
def test_schedules_of_the_wall_clock_are_called_and_compared() -> None:
    result = simulate(reporting(Reporting), INPUTS, schedules=30)
    assert result.ok
    assert result.counters["outputs_compared"] > 30


def test_what_a_schedule_of_the_wall_clock_keeps_in_an_attribute_is_found() -> None:
    result = simulate(reporting(Numbering), INPUTS, schedules=200, raises=False)
    assert not result.ok
    assert result.operator == "reporting"
    assert "called by the clock" in str(result)


@pytest.mark.slow
@pytest.mark.no_cover  # many schedules: the others cover the same
def test_the_same_seed_tells_the_same_story() -> None:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", key=str, value=str)
    clicks.process(Forgetful, name="forgetful").to("counts", key=str, value=int)
    topology = builder.build()
    first, second = (simulate(topology, INPUTS, schedules=20, raises=False).story for _ in range(2))
    assert first == second is not None


def test_an_input_of_a_topic_that_is_not_read_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'klicks'.*it reads 'clicks'"):
        simulate(counting(), [("klicks", "a", "home")])


def test_records_without_a_key_are_no_rows_of_a_source_topic_that_is_the_changelog() -> None:
    builder = StreamsBuilder()
    builder.table("prices", key=str, value=int, store="prices").to_stream().to("out")
    topology = builder.build(optimization="all")

    assert simulate(topology, [("prices", None, 1), ("prices", "a", 2)], schedules=5).ok
