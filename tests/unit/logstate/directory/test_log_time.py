"""How long instances have been silent, by the times of their entries and of those of others."""

from __future__ import annotations

from logstate.directory.entries import InstanceEntry
from logstate.directory.log_time import LogTime

BEAT_MS = 1_000


def silences(*said: tuple[str, int]) -> dict[str, float]:
    time = LogTime()
    for name, at_ms in said:
        time.heard(InstanceEntry(name, "", 0, BEAT_MS), at_ms)
    return time.silences()


def test_whoever_goes_on_tells_how_long_another_one_has_been_silent() -> None:
    beats = [("alive", BEAT_MS * beat) for beat in range(1, 9)]
    assert silences(("alive", 0), ("dead", 500), *beats) == {"dead": 8_000, "alive": 0}


def test_clocks_of_two_instances_are_never_compared() -> None:
    assert silences(("a", 9_000_000), ("b", 5), ("a", 9_000_700)) == {"b": 700, "a": 0}


def test_time_goes_on_as_for_the_one_who_tells_of_most_of_it() -> None:
    said = (("a", 0), ("b", 0), ("b", 900), ("a", 1_000), ("b", 1_900), ("c", 0))
    assert silences(*said) == {"a": 900, "b": 0, "c": 0}


def test_a_clock_that_is_set_forward_silences_nobody() -> None:
    assert silences(("set", 0), ("alive", 0), ("set", 3_600_000)) == {"set": 0, "alive": 2_000}


def test_a_clock_that_is_set_back_takes_nothing_from_what_has_passed() -> None:
    said = (("dead", 0), ("a", 50_000), ("a", 51_000), ("a", 10), ("a", 1_010))
    assert silences(*said) == {"dead": 2_000, "a": 0}
