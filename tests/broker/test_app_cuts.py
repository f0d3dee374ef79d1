"""A running application gives a name to its newest cut."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from logstate.changelog.spark import list_cuts
from logstate.contracts.errors import ConfigError
from tests.broker.test_store_read import EXPECTED, Counter, rows_or_none
from tests.patience import until


def test_an_application_keeps_a_cut_and_goes_on(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    made = Counter(bootstrap, unique("cuts"), tmp_path)

    def counted() -> int:
        return sum(row[1] for row in rows_or_none(made, "counts"))

    with made.runs() as app:
        until(lambda: counted() == 5)
        named = app.create_cut("before", stores=["counts"], keep=timedelta(days=1))
        made.send("clicks", 0, [("ada", 9, 9_500)])
        until(lambda: counted() == 6)

        with pytest.raises(ConfigError, match="before"):
            app.create_cut("before")
        with pytest.raises(ConfigError, match="nobodys"):
            app.create_cut("after", stores=["nobodys"])

    assert (named.name, list(named.stores)) == ("before", ["counts"])
    assert [one.name for one in list_cuts(bootstrap, made.name)] == ["before"]
    assert made.rows("counts", cut="before") == EXPECTED["counts"]
    assert made.rows("counts") != EXPECTED["counts"]
    with pytest.raises(ConfigError, match="sessions"):
        made.rows("sessions", cut="before")
