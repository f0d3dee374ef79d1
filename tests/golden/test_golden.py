"""What other programs read keeps its names, whatever the code calls it."""

from __future__ import annotations

import pytest

from tests.golden.interfaces import FOLDER, GOLDEN, text_of


@pytest.mark.parametrize("name", GOLDEN)
def test_names_that_other_programs_read_are_those_of_the_golden_files(name: str) -> None:
    golden = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    assert text_of(GOLDEN[name]()) == golden, "if it is meant: python -m tests.golden"
