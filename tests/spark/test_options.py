"""Options are checked on the driver, all problems at once."""

from __future__ import annotations

import pytest

from logstate.changelog.cuts.cut_value import CutValue
from logstate.changelog.reading.options import parse_options
from logstate.contracts.errors import ConfigError

GIVEN = {"bootstrap": "localhost:9092", "application": "app", "store": "spend"}


def test_the_latest_commit_is_the_default() -> None:
    assert parse_options(GIVEN).cut == "latest-commit"


def test_names_are_matched_in_any_case() -> None:
    assert parse_options({**GIVEN, "INCLUDEtombstones": "TRUE"}).include_tombstones


def test_kafka_options_reach_the_client_and_are_never_shown() -> None:
    options = parse_options({**GIVEN, "kafka.sasl.password": "hunter2"})

    assert options.client_config == {
        "sasl.password": "hunter2",
        "bootstrap.servers": "localhost:9092",
    }
    assert "hunter2" not in repr(options)


def test_offsets_are_json_with_partitions_as_numbers() -> None:
    assert parse_options({**GIVEN, "cut": '{"t": {"0": 7}}'}).cut == CutValue({"t": {0: 7}})


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"bootstrap": ""}, "bootstrap"),
        ({"store": ""}, "neither"),
        ({"topic": "t"}, "both"),
        ({"cut": "last week"}, "last week"),
        ({"cut": '{"t": {"0": -1}}'}, "cut"),
        ({"cut": "before-v2", "readChangeFeed": "true"}, "a change feed has none"),
        ({"cut": "before-v2", "store": None, "topic": "t"}, 'needs "application" and "store"'),
        ({"partition": "one"}, "partition"),
        ({"includeMeta": "yes"}, "true or false"),
        ({"times": "ns"}, "times"),
        ({"includTombstones": "true"}, "unknown option"),
        ({"kafka.group.id": "g"}, "kafka.group.id"),
    ],
)
def test_a_wrong_option_is_named(changed: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_options({**GIVEN, **changed})


def test_every_problem_is_listed() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options({"times": "ns", "includeMeta": "yes"})

    assert len(caught.value.problems) == 4
