"""The hot loop: event times, and what is consumed and said when a record fails."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from logstate import serdes
from logstate.contracts.errors import (
    DeserializationError,
    ProcessingError,
    RegistryError,
    StoreError,
)
from logstate.contracts.records import Record, RecordMetadata, TopicPartition
from logstate.contracts.serde import Serde
from logstate.task.error_handlers import (
    Decision,
    ErrorHandlers,
    FailedRecord,
    dead_letter,
    skip,
)
from logstate.testing.fake.fetched import StoredRecord
from logstate.topology import Processor, StreamsBuilder
from tests.unit.logstate.task.task_bench import TaskBench

IN = TopicPartition("in", 0)


def numbers(builder: StreamsBuilder) -> None:
    """Reads int64 under string keys, writes them as text."""
    stream = builder.stream("in", key=str, value=serdes.int64, name="numbers")
    stream.map_values(str, value=str).to("out")


def add_raw(
    bench: TaskBench,
    *records: tuple[bytes | None, bytes | None],
    headers: list[tuple[str, bytes | None]] | None = None,
) -> None:
    bench.task.add_records(
        IN,
        [StoredRecord("in", 0, i, k, v, 100 + i, headers) for i, (k, v) in enumerate(records)],
    )


def int64(number: int) -> bytes:
    return number.to_bytes(8, "big")


# --- records that do not decode -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "part"), [(b"\xff", int64(1), "key"), (b"k", b"short", "value")]
)
def test_a_poison_record_names_its_part_and_all_its_coordinates(
    key: bytes, value: bytes, part: str
) -> None:
    bench = TaskBench(numbers)
    add_raw(bench, (b"k", int64(1)), (b"k", int64(2)), (key, value), (b"k", int64(4)))
    with pytest.raises(DeserializationError) as caught:
        bench.task.process(100)
    error = caught.value
    assert (error.topic, error.partition, error.offset) == ("in", 0, 2)
    assert (error.task, error.node) == ("0_0", "numbers")
    assert str(error).startswith(
        f"the {part} of a record does not decode: topic 'in', partition 0, offset 2, task 0_0,"
        " source 'numbers': "
    )
    assert error.__cause__ is not None
    assert bench.take() == ["1", "2"]
    assert bench.consumed("in") == 2


def test_the_bytes_of_a_poison_record_are_not_in_the_message() -> None:
    bench = TaskBench(numbers)
    add_raw(bench, (b"k", b"secret-payload"))
    with pytest.raises(DeserializationError) as caught:
        bench.task.process(100)
    assert "secret-payload" not in str(caught.value)


def test_a_poison_record_that_is_first_consumes_nothing() -> None:
    bench = TaskBench(numbers)
    add_raw(bench, (b"k", b"?"))
    with pytest.raises(DeserializationError):
        bench.task.process(100)
    assert bench.consumed("in") is None
    assert not bench.task.has_uncommitted_input
    assert bench.task.partition_times == {}


def test_null_keys_and_values_are_not_decoded() -> None:
    seen: list[object] = []

    def declare(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=serdes.int64, value=serdes.int64)
        stream.foreach(lambda key, value: seen.append((key, value)))

    bench = TaskBench(declare)
    add_raw(bench, (None, None), (int64(1), None), (None, int64(2)))
    bench.task.process(100)
    assert seen == [(None, None), (1, None), (None, 2)]


def test_a_poison_head_is_found_while_partitions_are_compared() -> None:
    def declare(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=serdes.int64, name="numbers")
        stream.merge(builder.stream("other", key=str, value=serdes.int64)).foreach(
            lambda value: None
        )

    bench = TaskBench(declare)
    bench.end("other")
    add_raw(bench, (b"k", b"?"))
    with pytest.raises(DeserializationError, match="offset 0, task 0_0, source 'numbers'"):
        bench.task.process(100)
    assert bench.consumed("in") is None


class HeadersUnreadable(StoredRecord):
    """A record whose headers the client does not return."""

    def headers(self) -> Any:
        raise UnicodeDecodeError("utf-8", b"caf\xe9", 3, 4, "unexpected end of data")


class ReadsHeaders(Serde[str]):
    """A text whose deserializer gets the headers as well."""

    def serializer(self, topic: str, is_key: bool) -> Callable[[str], bytes]:
        return str.encode

    def deserializer(self, topic: str, is_key: bool) -> Callable[[bytes], str]:
        return bytes.decode

    def header_deserializer(self, topic: str, is_key: bool) -> Callable[[bytes, Any], str]:
        return lambda data, headers: data.decode()

    def describe(self) -> dict[str, Any]:
        return {"format": "reads headers"}


@pytest.mark.parametrize("decoder", [str, ReadsHeaders()])
def test_headers_that_the_client_cannot_read_are_an_error_of_their_record(decoder: Any) -> None:
    bench = TaskBench(lambda b: b.stream("in", value=decoder, name="texts").to("out", value=str))
    good = StoredRecord("in", 0, 0, None, b"a", 100)
    bench.task.add_records(IN, [good, HeadersUnreadable("in", 0, 1, None, b"b", 101)])
    with pytest.raises(DeserializationError) as caught:
        bench.task.process(100)
    assert str(caught.value).startswith(
        "the headers of a record do not decode: topic 'in', partition 0, offset 1, task 0_0, source"
        " 'texts': 'utf-8' codec can't decode byte 0xe9 in position 3: unexpected end of data. The"
        " Kafka client cannot read them: their names are probably not UTF-8."
    )
    assert bench.take() == ["a"]
    assert bench.consumed("in") == 1


@pytest.mark.parametrize(("answer", "letters"), [(skip, []), (dead_letter, ["b"])])
def test_the_deserialization_handler_answers_unreadable_headers(
    answer: Any, letters: list[str]
) -> None:
    asked: list[FailedRecord] = []

    def handler(failed: FailedRecord) -> Decision:
        asked.append(failed)
        return answer(failed)  # type: ignore[no-any-return]

    bench = TaskBench(
        lambda b: b.stream("in", value=str).to("out"),
        error_handlers=ErrorHandlers(deserialization=handler, dead_letter_topic="dead"),
    )
    records = [
        StoredRecord("in", 0, 0, None, b"a", 100),
        HeadersUnreadable("in", 0, 1, None, b"b", 101),
        StoredRecord("in", 0, 2, None, b"c", 102),
    ]
    bench.task.add_records(IN, records)
    while bench.task.process(100):
        pass
    dead = [one[3] for one in bench.task.outputs if one[0] == "dead"]
    assert [value.decode() for value in dead if value] == letters
    assert [(one.stage, one.headers, one.source) for one in asked] == [
        ("deserialization", None, RecordMetadata("in", 0, 1))
    ]
    assert bench.consumed("in") == 3


class Unreachable(Serde[Any]):
    """A serde whose registry does not answer."""

    def serializer(self, topic: str, is_key: bool) -> Callable[[Any], bytes]:
        raise NotImplementedError

    def deserializer(self, topic: str, is_key: bool) -> Callable[[bytes], Any]:
        def decode(data: bytes) -> Any:
            raise RegistryError("the registry does not answer")

        return decode

    def describe(self) -> dict[str, Any]:
        return {"format": "unreachable"}


def test_a_registry_that_does_not_answer_is_no_fault_of_the_record() -> None:
    bench = TaskBench(
        lambda b: b.stream("in", key=str, value=Unreachable()).foreach(lambda value: None)
    )
    add_raw(bench, (b"k", b"v"))
    with pytest.raises(RegistryError):
        bench.task.process(100)
    assert bench.consumed("in") is None


# --- functions that raise -------------------------------------------------------------------------


def divided(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key=str, value=serdes.int64)
    stream.map_values(lambda value: str(100 // value), value=str, name="divide").to("out")


def test_a_function_that_raises_is_named_with_record_operator_and_line() -> None:
    bench = TaskBench(divided)
    add_raw(bench, (b"k", int64(5)), (b"k", int64(0)))
    with pytest.raises(ProcessingError) as caught:
        bench.task.process(100)
    error = caught.value
    assert (error.topic, error.partition, error.offset) == ("in", 0, 1)
    assert (error.task, error.node) == ("0_0", "divide")
    assert error.function is not None
    assert re.fullmatch(r".*test_batch_loop\.py:\d+ in <lambda>", error.function)
    assert "ZeroDivisionError" in str(error)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert bench.take() == ["20"]
    assert bench.consumed("in") == 1


def test_an_extractor_that_raises_is_an_error_of_processing_and_consumes_nothing() -> None:
    def extractor(key: Any, value: Any, timestamp: int, partition_time: int) -> int:
        raise KeyError("no such field")

    bench = TaskBench(
        lambda b: b.stream("in", key=str, value=str, timestamp_extractor=extractor).to("out")
    )
    add_raw(bench, (b"k", b"v"))
    with pytest.raises(ProcessingError, match="topic 'in', partition 0, offset 0"):
        bench.task.process(100)
    assert bench.consumed("in") is None


def test_an_error_of_a_store_is_not_blamed_on_the_record() -> None:
    class Broken(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            raise StoreError("disk full")

    bench = TaskBench(lambda b: b.stream("in", key=str, value=str).process(Broken))
    add_raw(bench, (b"k", b"v"))
    with pytest.raises(StoreError, match=r"^disk full$"):
        bench.task.process(100)
    assert bench.consumed("in") is None


def test_an_error_that_names_its_record_already_is_left_as_it_is() -> None:
    said = ProcessingError("said already", topic="in", offset=0)

    class Raises(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            raise said

    bench = TaskBench(lambda b: b.stream("in", key=str, value=str).process(Raises))
    add_raw(bench, (b"k", b"v"))
    with pytest.raises(ProcessingError) as caught:
        bench.task.process(100)
    assert caught.value is said


def test_an_interrupt_is_not_turned_into_an_error_of_the_record() -> None:
    class Interrupted(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            raise KeyboardInterrupt

    bench = TaskBench(lambda b: b.stream("in", key=str, value=str).process(Interrupted))
    add_raw(bench, (b"k", b"v"))
    with pytest.raises(KeyboardInterrupt):
        bench.task.process(100)
    assert bench.consumed("in") is None


# --- event times ----------------------------------------------------------------------------------


def timed(builder: StreamsBuilder) -> None:
    def later(key: Any, value: str, timestamp: int, partition_time: int) -> int:
        return int(value)

    builder.stream("in", key=str, value=str, timestamp_extractor=later).to("out")


def test_the_extractor_decides_the_event_time() -> None:
    bench = TaskBench(timed)
    bench.add("in", ("k", "70", 5), ("k", "60", 6))
    bench.task.process(100)
    assert [r[4] for r in bench.task.outputs] == [70, 60]
    assert bench.task.stream_time == 70


def test_an_extractor_sees_key_value_time_and_the_largest_time_before() -> None:
    seen = []

    def extractor(key: str, value: str, timestamp: int, partition_time: int) -> int:
        seen.append((key, value, timestamp, partition_time))
        return timestamp

    bench = TaskBench(
        lambda b: b.stream("in", key=str, value=str, timestamp_extractor=extractor).to("out")
    )
    bench.pipe("in", ("a", "1", 50), ("b", "2", 40))
    bench.pipe("in", ("c", "3", 60))
    assert seen == [("a", "1", 50, -1), ("b", "2", 40, 50), ("c", "3", 60, 50)]


def test_a_negative_event_time_drops_the_record_counts_it_and_commits_past_it() -> None:
    bench = TaskBench(timed)
    bench.add("in", ("k", "5", 0), ("k", "-1", 0), ("k", "7", 0), ("k", "-3", 0))
    assert bench.task.process(100) == 2
    assert bench.take() == ["5", "7"]
    assert [(one.reason, one.count) for one in bench.task.drops] == [("negative_timestamp", 2)]
    assert bench.consumed("in") == 4
    assert bench.task.stream_time == 7


def test_an_external_record_without_a_timestamp_is_refused_with_the_remedy() -> None:
    bench = TaskBench(numbers)
    bench.task.add_records(IN, [StoredRecord("in", 0, 3, b"k", int64(1), -1)])
    with pytest.raises(
        ProcessingError,
        match=r"no timestamp: topic 'in', partition 0, offset 3, task 0_0.*timestamp_extractor",
    ) as caught:
        bench.task.process(100)
    assert (caught.value.topic, caught.value.offset, caught.value.task) == ("in", 3, "0_0")


def test_an_extractor_may_answer_for_a_record_without_a_timestamp() -> None:
    bench = TaskBench(timed)
    assert bench.pipe("in", ("k", "42", -1)) == ["42"]
    assert bench.task.stream_time == 42


def test_on_internal_topics_no_timestamp_stands_for_event_time_zero() -> None:
    def declare(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        stream.repartition(name="again").to("out")

    bench = TaskBench(declare, sub_topology=1)
    bench.add("app-again-repartition", ("k", "v", -1))
    bench.task.process(100)
    assert [(r[3], r[4]) for r in bench.task.outputs] == [(b"v", 0)]


def test_the_record_at_hand_is_what_stores_and_operators_see() -> None:
    seen = []

    class Looker(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            task = bench.task
            seen.append((task.topic, task.partition, task.offset, task.timestamp, task.headers))

    bench = TaskBench(lambda b: b.stream("in", key=str, value=str).process(Looker))
    add_raw(bench, (b"k", b"v"), (b"k", b"v"), headers=[("h", b"1")])
    bench.task.process(100)
    assert seen == [("in", 0, 0, 100, [("h", b"1")]), ("in", 0, 1, 101, [("h", b"1")])]
