"""The rules of settings: what passes, and what is said of the rest."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts import setting_rules as rules
from logstate.contracts.standby_settings import StandbySettings


@pytest.mark.parametrize(
    "given",
    [
        "a",
        "a:1",
        "a:1,b:2",
        " a:1 , b:2 ",
        "a:1,",
        "[::1]:9092",
        "SASL_SSL://a.b-c.de:9093",
        "10.0.0.1:65535",
    ],
)
def test_addresses_of_brokers(given: str) -> None:
    assert list(rules.brokers("bootstrap", given)) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", "bootstrap is empty"),
        (" , ", "bootstrap is empty"),
        (None, "must be 'host:port,host:port'; got None"),
        (b"a:1", "got b'a:1' (bytes)"),
        (5, "got 5 (int)"),
        (["a:1", "b:2"], "Write 'a:1,b:2'"),
        (("a:1",), "Write 'a:1'"),
        ("['a:1']", "which is not an address"),
        ("a:1;b:2", "which is not an address"),
        ("a:1 b:2", "which is not an address"),
        ("a\0:1", "which is not an address"),
        ("\ud800:1", "which is not an address"),
        ("http://a:1", "'http' is not a protocol of brokers"),
        ("a:", "'' is not a port"),
        ("a:0", "'0' is not a port"),
        ("a:65536", "'65536' is not a port"),
        ("a:x", "'x' is not a port"),
        (":9092", "without a host"),
        ("::1", "an IPv6 address must be in brackets: '[::1]:9092'"),
    ],
)
def test_what_is_no_address_of_brokers(given: Any, message: str) -> None:
    (problem,) = rules.brokers("bootstrap", given)
    assert message in problem


@pytest.mark.parametrize("given", [True, None, "2", 2.0, 0, -1, 4, [], print])
def test_what_is_no_count_between_one_and_three(given: Any) -> None:
    (problem,) = rules.count("workers", given, least=1, most=3)
    assert problem.startswith("workers must be ")
    assert "from 1 to 3" in problem


def test_a_number_as_text_is_written_as_a_number() -> None:
    (problem,) = rules.count("replication_factor", "1", least=1)
    assert problem.endswith("got '1' (str). Write 1")


@pytest.mark.parametrize(
    "given", ["earliest", "latest", "none", timedelta(0), timedelta(days=1), timedelta.max]
)
def test_where_to_begin(given: Any) -> None:
    assert list(rules.offset_reset("offset_reset", given)) == []


@pytest.mark.parametrize("given", ["lates", "", None, 5, b"latest", ["latest"]])
def test_where_nobody_can_begin(given: Any) -> None:
    (problem,) = rules.offset_reset("offset_reset", given)
    assert "'earliest', 'latest', 'none' or a timedelta back from now" in problem


def test_a_time_in_the_future_is_no_beginning() -> None:
    (problem,) = rules.offset_reset("offset_reset", timedelta(days=-1))
    assert "in the future. Write datetime.timedelta(days=1)" in problem


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("given", ["x" * 1_000_000, ["a:1"] * 100_000, Unspeakable()])
def test_whatever_was_given_is_told_in_short(given: Any) -> None:
    problems = [
        *rules.count("a", given, least=1),
        *rules.duration("b", given),
        *rules.flag("c", given),
        *rules.choice("d", given, ("yes", "no")),
        *rules.topic("e", [given]),
        *rules.application_id("f", given),
        *rules.mapping("g", given, "{}"),
        *rules.offset_reset("h", given),
        *rules.brokers("i", [given]),
        *StandbySettings(replicas=given, bytes_per_s=given, acceptable_lag=given).problems(),
    ]
    assert len(problems) == 12
    assert max(map(len, problems)) < 500


@pytest.mark.parametrize("given", [1, 0, "yes", None])
def test_a_flag_is_true_or_false(given: Any) -> None:
    assert "must be True or False" in next(rules.flag("static_membership", given))


@pytest.mark.parametrize(
    "given", ["", " ", "my app", "a/b", "../x", "ü", "a" * 101, ".a", "a\n", None, 5, "a:1", b"a"]
)
def test_what_is_no_application_id(given: Any) -> None:
    assert "use letters, digits" in next(rules.application_id("application_id", given))


@pytest.mark.parametrize("given", ["a", "-x", "a" * 100, "a.b_c-d", "9"])
def test_an_application_id_is_part_of_names(given: str) -> None:
    assert list(rules.application_id("application_id", given)) == []
