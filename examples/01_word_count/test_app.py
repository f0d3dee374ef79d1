"""The word count without a broker."""

from __future__ import annotations

from importlib import import_module

from logstate import TopologyTestDriver

app = import_module("examples.01_word_count.app")


def test_every_occurrence_of_a_word_is_an_update() -> None:
    with TopologyTestDriver(app.topology()) as driver:
        driver.pipe("lines", None, "To be or not to be")
        assert driver.read("word-counts", value=int) == [
            ("to", 1),
            ("be", 1),
            ("or", 1),
            ("not", 1),
            ("to", 2),
            ("be", 2),
        ]


def test_counts_go_on_after_a_crash() -> None:
    with TopologyTestDriver(app.topology()) as driver:
        driver.pipe("lines", None, "to be")
        driver.crash(loses_disk=True)
        driver.pipe("lines", None, "or not to be")
        assert dict(driver.read("word-counts", value=int)) == {"to": 2, "be": 2, "or": 1, "not": 1}


def test_a_line_without_words_changes_nothing() -> None:
    with TopologyTestDriver(app.topology()) as driver:
        driver.pipe("lines", None, "   ")
        assert driver.read("word-counts", value=int) == []
