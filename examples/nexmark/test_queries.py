"""Every query on a few minutes of an auction house, compared with its SQL over the same events."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from examples.nexmark import reference, results
from examples.nexmark.events import Event, events
from examples.nexmark.measure import SHARED, lines_of

EVENTS, SEED = 800, 7


@pytest.fixture(scope="module")
def inputs() -> list[Event]:
    return list(events(EVENTS, SEED))


@pytest.fixture(scope="module")
def database(
    inputs: list[Event], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[duckdb.DuckDBPyConnection]:
    with reference.connect(inputs, tmp_path_factory.mktemp("nexmark")) as connection:
        yield connection


@pytest.mark.parametrize("query", reference.QUERIES)
def test_the_results_are_those_of_sql_over_the_whole_input_despite_a_crash_and_a_lost_disk(
    query: str, inputs: list[Event], database: duckdb.DuckDBPyConnection
) -> None:
    expected = Counter(reference.rows(database, query))

    with results.driver_of(query, commit_every=100) as driver:
        results.pipe(driver, inputs[: EVENTS // 2])
        driver.crash(loses_disk=True)
        results.pipe(driver, inputs[EVENTS // 2 :])
        found = Counter(results.rows(driver, query))

    assert found - expected == Counter()
    assert expected - found == Counter()
    assert expected


def test_the_readme_states_how_many_lines_each_query_has() -> None:
    text = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    stated = {row[1]: int(row[2]) for row in re.finditer(r"(?m)^\| (q\d+) .*\| (\d+) \| ", text)}

    assert stated == {query: lines_of(query) for query in reference.QUERIES}
    assert f"({lines_of(*SHARED)} lines:" in text
