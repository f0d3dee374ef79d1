"""A dead letter that is too large does not end the application: it is cut, and says so."""

from __future__ import annotations

from typing import Any

import pytest

from logstate.contracts.errors import RefusedError
from logstate.task.error_handlers import ErrorHandlers, dead_letter
from logstate.testing import FakeCluster
from logstate.topology import StreamsBuilder
from tests.unit.logstate.worker.test_poison_record import settle
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, outputs

HANDLERS = ErrorHandlers(
    deserialization=dead_letter, processing=dead_letter, dead_letter_topic="dead"
)


def quoting(builder: StreamsBuilder) -> None:
    def parse(value: str) -> str:
        if not value.isdigit():
            raise ValueError(f"not a number: {value}")
        return value

    builder.stream("in", key=str, value=str).map_values(parse, value=str).to("out")


def numbers(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=int).to("out")


def run(cluster: FakeCluster, declare: Any, bad: bytes, *, good: bytes = b"1", **parts: Any) -> Any:
    rig = WorkerRig(cluster, declare, error_handlers=HANDLERS).start().until_running()
    cluster.produce("in", b"a", good, timestamp=1)
    cluster.produce("in", b"b", bad, timestamp=2, **parts)
    cluster.produce("in", b"c", good, timestamp=3)
    settle(rig)
    return rig


def told(cluster: FakeCluster) -> tuple[Any, dict[str, bytes | None]]:
    (letter,) = cluster.records("dead")
    return letter, dict(letter.headers() or ())


def test_the_text_of_a_huge_error_is_cut_and_the_bytes_are_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = cluster_of({"in": 1, "out": 1, "dead": 1})
    bad = b"x" * 600_000
    rig = run(cluster, quoting, bad)
    assert [key for key, _ in outputs(cluster)] == ["a", "c"]
    letter, headers = told(cluster)
    assert letter.value() == bad
    message, trace = headers["__streams.errors.message"], headers["__streams.errors.stacktrace"]
    assert message is not None
    assert message.endswith("… (cut: 600014 characters)".encode())
    assert trace is not None
    assert b"in parse" in trace
    assert sum(len(value or b"") for value in headers.values()) < 10_000
    assert max(len(record.getMessage()) for record in caplog.records) < 5_000
    assert rig.tasks["0_0"].task.dead_letters_total == 1


@pytest.mark.parametrize(
    ("declare", "good"), [(quoting, b"1"), (numbers, bytes(8))], ids=["processing", "decoding"]
)
@pytest.mark.parametrize("buffers_sends", [False, True], ids=["at once", "at the flush"])
def test_a_letter_that_is_refused_goes_without_its_bytes(
    declare: Any, good: bytes, buffers_sends: bool
) -> None:
    cluster = cluster_of({"in": 1, "out": 1}, buffers_sends=buffers_sends)
    cluster.create_topic("dead", 1, {"max.message.bytes": "8000"})
    run(cluster, declare, b"x" * 7_900, good=good, headers=[("trace", b"y")])
    assert [key for key, _ in outputs(cluster)] == ["a", "c"]
    letter, headers = told(cluster)
    assert (letter.key(), letter.value(), letter.timestamp()[1]) == (b"b", None, 2)
    cut = headers["__streams.errors.cut"]
    assert cut is not None
    assert b"value: 7900 bytes, key: 1 bytes, headers: 1" in cut
    assert b"max.message.bytes" in cut
    assert headers["__streams.errors.offset"] == b"1"
    assert "trace" not in headers
    assert cluster.committed_offset("app", "in") == 3


def test_a_topic_that_takes_no_letters_at_all_stops_the_application() -> None:
    cluster = cluster_of({"in": 1, "out": 1})
    cluster.create_topic("dead", 1, {"max.message.bytes": "100"})
    with pytest.raises(RefusedError, match=r"offset 1.*bytes to 'dead'"):
        run(cluster, quoting, b"x")
    assert [key for key, _ in outputs(cluster)] == ["a"]


def test_the_next_letter_is_whole_again() -> None:
    cluster = cluster_of({"in": 1, "out": 1})
    cluster.create_topic("dead", 1, {"max.message.bytes": "8000"})
    rig = run(cluster, quoting, b"x" * 7_900)
    cluster.produce("in", b"d", b"short", timestamp=4)
    settle(rig)
    assert [(r.key(), r.value()) for r in cluster.records("dead")] == [
        (b"b", None), (b"d", b"short")
    ]  # fmt: skip
