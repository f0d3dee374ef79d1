"""A wrong output is noticed: the check of the benchmark can fail."""

from __future__ import annotations

import random

import pytest

from tests.performance.events import Event, Expected, ExpectedWindows, random_key, write_events
from tests.performance.outputs import check_outputs
from tests.performance.workload import WORKLOADS


class Output:
    """A record as the client returns it."""

    def __init__(self, key: str, value: str) -> None:
        self._key, self._value = key.encode(), value.encode()

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes:
        return self._value


def expected(events: int = 0) -> Expected:
    return Expected("cluster", events, 0, 2, {"ada": (2, 3.5), "bob": (1, 1.0)})


def counts(*rows: tuple[str, int, float]) -> list[Output]:
    return [Output(key, f'{{"count":{n},"sum":{total}}}') for key, n, total in rows]


def test_the_last_output_of_each_key_counts() -> None:
    outputs = counts(("ada", 1, 1.0), ("bob", 1, 1.0), ("ada", 2, 3.5))

    assert check_outputs(WORKLOADS["W2"], outputs, expected()) == (3, True)


@pytest.mark.parametrize(
    "outputs",
    [
        counts(("ada", 2, 3.5)),
        counts(("ada", 1, 3.5), ("bob", 1, 1.0)),
        counts(("ada", 2, 3.6), ("bob", 1, 1.0)),
        counts(("ada", 2, 3.5), ("bob", 1, 1.0), ("eve", 1, 1.0)),
    ],
)
def test_a_missing_wrong_or_foreign_total_is_noticed(outputs: list[Output]) -> None:
    _, is_right = check_outputs(WORKLOADS["W3"], outputs, expected())

    assert not is_right


def test_windows_are_compared_by_key_and_start() -> None:
    wanted = ExpectedWindows({"ada": {0: (1, 1.0), 10_000: (2, 5.0)}})
    first = Output("ada", '{"start":0,"count":1,"sum":1.0}')
    second = Output("ada", '{"start":10000,"count":2,"sum":5.0}')
    wrong = Output("ada", '{"start":20000,"count":2,"sum":5.0}')
    window = WORKLOADS["W4"]

    assert check_outputs(window, [first, second], expected(), wanted) == (2, True)
    assert check_outputs(window, [first, wrong], expected(), wanted) == (2, False)
    assert check_outputs(window, [first], expected(), wanted) == (1, False)
    assert len(wanted) == 2


def test_every_record_must_be_enriched() -> None:
    good, bad = Output("ada", '{"name":"Ada"}'), Output("ada", '{"user":"ada"}')

    assert check_outputs(WORKLOADS["W5"], [good, good], expected(2)) == (2, True)
    assert check_outputs(WORKLOADS["W5"], [good, bad], expected(2)) == (2, False)


def test_keys_that_a_library_writes_as_json_are_the_same_keys() -> None:
    outputs = counts(('"ada"', 2, 3.5), ("bob", 1, 1.0))

    assert check_outputs(WORKLOADS["W2"], outputs, expected()) == (2, True)


def test_events_are_the_same_every_time_and_add_up() -> None:
    runs: list[list[Event]] = [[], []]
    made = [write_events(500, 50, "cluster", run.append) for run in runs]

    first, second = runs
    assert [e[:2] for e in first] == [e[:2] for e in second]
    totals, windows = made[0][0].totals, made[0][1]
    assert sum(count for count, _ in totals.values()) == 500
    assert sum(n for rows in windows.by_key.values() for n, _ in rows.values()) == 500
    assert made[0][0].passed == sum(e.amount > 10 for e in first)


def test_keys_are_skewed_and_within_their_number() -> None:
    rng = random.Random(1)
    keys = [random_key(rng, 1_000_000) for _ in range(5_000)]

    assert all(len(key) == 7 and int(key[1:]) < 1_000_000 for key in keys)
    assert 100 < keys.count("u000000") < 500
