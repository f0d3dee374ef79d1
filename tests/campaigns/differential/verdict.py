"""One case through both libraries, and the first place where they differ."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from logstate.contracts.errors import LogstateError, TopologyError
from logstate.testing.driver import TopologyTestDriver
from tests.conformance.compare import list_differences, logged_per_commit, suppress_changelogs
from tests.conformance.observer import Observer, recorded_class
from tests.conformance.replay import collect_new, raw_row, replay
from tests.conformance.settings import driver_settings, has_cache
from tests.conformance.steps import build_topology
from tests.conformance.vary import variations_of, varied_differences
from tests.conformance.vectors import Case, Run
from tests.conformance.wire import decode_headers, topic_types

from .jvm import KafkaStreams

#: what is refused here on purpose, and built there
_REFUSED_HERE = (" needs a name: ", " is read twice with different timestamp extractors")


@dataclass(frozen=True)
class Verdict:
    """What became of a case, in a word, and the first difference.

    ``equal``; ``different``; ``refused``: only here; ``ours``: only Kafka Streams refuses it;
    ``void``: both do.
    """

    kind: str
    said: str = ""
    rows: int = 0


def case_of(given: dict[str, Any]) -> Case:
    """The case as the recorded runs have it."""
    return Case(
        name=given["case"],
        config=given["config"],
        steps=given["topology"],
        inputs=given["inputs"],
        outputs=given["outputs"],
        describe="",
        names={},
        runs=[],
    )


def decoded_output(
    given: dict[str, Any], topic: str, rows: list[list[Any]]
) -> list[dict[str, Any]]:
    """Records of an output topic as the recorded runs have them."""
    key, value = topic_types(given["outputs"][topic])
    found = []
    for cause, raw_key, raw_value, time_ms, *headers in rows:
        row = {
            "topic": topic,
            "key": key.decode(_raw(raw_key)),
            "value": value.decode(_raw(raw_value)),
        }
        row["ts"] = time_ms
        if headers:
            row["headers"] = decode_headers([(name, _raw(raw)) for name, raw in headers[0]])
        found.append(row | {"cause": cause})
    return found


def _raw(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def judged(streams: KafkaStreams, given: dict[str, Any]) -> Verdict:
    """Run the case in both."""
    expected = streams.run(given)
    case = case_of(given)
    try:
        topology = build_topology(case)
    except TopologyError as error:
        is_void = "refused" in expected or any(one in str(error) for one in _REFUSED_HERE)
        return Verdict("void" if is_void else "refused", str(error))
    if "refused" in expected:
        return Verdict("ours", expected["refused"])
    found: dict[str, Any] = {"describe": topology.describe()}
    with TopologyTestDriver(topology, **driver_settings(case.config)) as driver:
        found |= _run(Observer(case, topology, driver), driver, given["events"])
    rows = sum(map(len, expected["topics"].values()))
    for difference in differences(given, expected, found):
        return Verdict("different", difference, rows)
    return Verdict("equal", rows=rows)


def varied(given: dict[str, Any]) -> Verdict:
    """Run the case here, plainly and under every variation: none may show."""
    case = case_of(given)
    if any(_forgets_in_a_crash(step) for step in given["topology"]):
        return Verdict("void", "what the crash takes is in no changelog")
    try:
        topology = build_topology(case)
    except TopologyError as error:
        return Verdict("void", str(error))
    nothing = Run(given["case"], given["events"], [], {}, [], {}, {}, None)
    expected = replay(case, topology, nothing)
    for variation in variations_of(topology):
        for difference in varied_differences(case, build_topology(case), expected, variation):
            return Verdict("different", f"{variation}: {difference}")
    return Verdict("equal", rows=len(expected.output))


def _forgets_in_a_crash(step: dict[str, Any]) -> bool:
    """Whether the step keeps what is not logged: of an LRU store, which rows were read last."""
    return "capacity" in step or step.get("processor") == "memory_punctuate"


def _run(
    observer: Observer, driver: TopologyTestDriver, events: list[dict[str, Any]]
) -> dict[str, Any]:
    topics: dict[str, list[list[Any]]] = {}
    dropped: list[list[int]] = []
    before = driver.dropped_total
    for cause, event in enumerate(events):
        error = None
        try:
            observer.apply(event)
        except LogstateError as failure:
            error = {"cause": cause, "exception": recorded_class(failure), "text": str(failure)}
        for record in driver.take_outputs():
            topics.setdefault(record.topic, []).append(raw_row(record, cause))
        for records in (driver.changelogs, driver.internal):
            collect_new(topics, records, cause)
        if driver.dropped_total != before:
            dropped.append([cause, driver.dropped_total - before])
            before = driver.dropped_total
        if error is not None:
            return {"topics": topics, "dropped": dropped, "error": error}
    return {"topics": topics, "dropped": dropped}


def differences(
    given: dict[str, Any], expected: dict[str, Any], found: dict[str, Any]
) -> Iterator[str]:
    """What differs between the two, the first record of all topics before anything else."""
    errors = [side.get("error", {}) for side in (expected, found)]
    if errors[0].get("cause") != errors[1].get("cause"):
        yield f"error: Kafka Streams {errors[0]}, here {errors[1]}"
    first: list[tuple[int, str]] = []
    steps, application_id = given["topology"], given["config"]["application.id"]
    both = [side["topics"] for side in (expected, found)]
    if has_cache(given["config"]):
        both = [logged_per_commit(steps, application_id, one) for one in both]
        if any(errors):  # what was not committed is in no changelog here
            both = [
                {topic: rows for topic, rows in one.items() if not topic.endswith("-changelog")}
                for one in both
            ]
    topics = both[0].keys() | both[1].keys()
    buffers = suppress_changelogs(steps, application_id)
    forgetting = {
        f"{application_id}-{step['store']}-changelog" for step in steps if "capacity" in step
    }
    for topic in sorted(topics):
        sides = [side.get(topic, []) for side in both]
        if topic in forgetting:  # what is forgotten is logged here alone
            sides = [[row for row in rows if row[2] is not None] for rows in sides]
        if topic in buffers:  # the order of keys inside an event is no rule there
            sides = [sorted(rows, key=lambda row: row[:2]) for rows in sides]
        for difference in list_differences(topic, *sides):
            causes = [
                row[0] for row in (difference.expected, difference.actual) if row != "nothing"
            ]
            first.append((min(causes), str(difference)))
    if first:
        cause, said = min(first)
        yield f"event {cause} {given['events'][cause]}: {said}"
    for difference in list_differences("dropped", expected["dropped"], found["dropped"]):
        yield str(difference)
    # The class of a function that chooses topics has a name of its own on each side.
    described = [
        re.sub(r"\(extractor class: .*\)", "(extractor)", side["describe"]).splitlines()
        for side in (expected, found)
    ]
    for difference in list_differences("describe line", *described):
        yield str(difference)
