"""What ``logstate doctor`` makes of facts; no broker, no machine."""

from __future__ import annotations

import pytest

from logstate.cli.diagnosis import findings
from logstate.cli.diagnosis.findings import Finding, Level
from logstate.kafka.broker_facts import BrokerFacts, ClockSkew, apis_of

GROUPS = "groups by the brokers (KIP-848)"
GOOD = BrokerFacts(
    "c1", ("a:1", "b:1", "c:1"), {26: 5, 68: 1, 88: 0}, frozenset({"CREATE", "DESCRIBE"}), {}
)


def of(facts: BrokerFacts) -> dict[str, Finding]:
    return {one.subject: one for one in findings.brokers(facts)}


def test_good_brokers_have_nothing_to_be_done() -> None:
    found = of(GOOD)
    assert {one.level for one in found.values()} == {Level.OK}
    assert not any(one.advice for one in found.values())
    assert found["release of Kafka"].found == "4.1 or newer"


@pytest.mark.parametrize(
    ("changes", "subject", "level", "advice"),
    [
        (
            {"apis": {26: 4}},
            GROUPS,
            "problem",
            'group_protocol="classic"',
        ),
        ({"apis": {26: 4, 68: 1}}, "transactions", "warning", "transaction.version=2"),
        (
            {"settings": {"group.coordinator.rebalance.protocols": "classic"}},
            GROUPS,
            "problem",
            "add consumer to it",
        ),
        (
            {"settings": {"transaction.max.timeout.ms": "9000"}},
            "transaction.max.timeout.ms",
            "problem",
            "raise it",
        ),
        (
            {"settings": {"offsets.topic.replication.factor": "1"}},
            "offsets.topic.replication.factor",
            "warning",
            "the loss of a broker loses commits",
        ),
        ({"operations": frozenset({"DESCRIBE"})}, "permissions", "note", "topics create"),
        ({"brokers": ("a:1",)}, "replication", "note", "only for tests"),
    ],
)
def test_what_is_wrong_with_brokers_says_what_to_do(
    changes: dict[str, object], subject: str, level: str, advice: str
) -> None:
    found = of(GOOD._replace(**changes))[subject]  # type: ignore[arg-type]
    assert (found.level, advice in found.advice) == (level, True)


@pytest.mark.parametrize(
    ("soft", "level"), [(None, "ok"), (20_000, "ok"), (1_024, "warning"), (256, "problem")]
)
def test_too_few_open_files_are_told_before_they_are_needed(soft: int | None, level: str) -> None:
    assert findings.open_files(soft).level == level


@pytest.mark.parametrize(
    ("free", "level"), [(10 << 30, "ok"), (500 << 20, "warning"), (1 << 20, "problem")]
)
def test_a_disk_that_is_nearly_full_is_told(free: int, level: str) -> None:
    assert findings.disk("/var/lib/shop", free).level == level


def test_a_clock_is_only_wrong_by_more_than_is_known_of_it() -> None:
    assert findings.clock(ClockSkew(-1_500, 600)).level is Level.OK
    behind = findings.clock(ClockSkew(-1_500, 5))
    assert (behind.level, behind.found) == (
        Level.WARNING,
        "1,500 ms behind the broker's, within 5 ms",
    )


def test_versions_are_compared_as_numbers() -> None:
    assert findings.old_version("x", "2.9.1", (2, 14)).advice == "pip install 'x>=2.14'"
    assert findings.old_version("x", "2.14.0rc1", (2, 14)).level is Level.OK


def test_of_several_brokers_the_least_counts() -> None:
    lines = [
        "x: a:9092/1:   ApiKey EndTxn (26) Versions 0..5",
        "x: b:9092/2:   ApiKey EndTxn (26) Versions 0..4",
        "x: b:9092/2:   ApiKey ConsumerGroupHeartbeat (68) Versions 0..1",
        "x: something else",
    ]
    assert apis_of(lines) == {26: 4}
