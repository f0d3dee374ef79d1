"""Runs every docstring example of the library under the name the module is imported by.

pytest's own doctest collection would load `topology/graph/nodes.py` a second time as
`topology.graph`, and `isinstance` across the two copies is false.
"""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PREFIXES = {
    "logstate": "logstate",
    "topology": "logstate.topology",
    "changelog": "logstate.changelog",
}


def dotted_name(path: Path) -> str:
    folder, *rest = path.relative_to(ROOT).with_suffix("").parts
    if rest[-1] == "__init__":
        rest.pop()
    return ".".join([PREFIXES[folder], *rest])


def modules_with_examples() -> list[object]:
    cases = []
    for path in sorted(p for folder in PREFIXES for p in (ROOT / folder).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if ">>> " in text:
            needs = ("import pyspark", "from pyspark", "import pyarrow", "changelog.reading")
            needs_spark = path.parent.name == "spark" or any(each in text for each in needs)
            marks = [pytest.mark.spark] if needs_spark else []
            cases.append(pytest.param(dotted_name(path), id=dotted_name(path), marks=marks))
    return cases


@pytest.mark.parametrize("name", modules_with_examples())
def test_the_examples_in_the_docstrings_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)

    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, attempted = doctest.testmod(module, optionflags=flags)

    assert failed == 0, "the differences are printed above"
    # Examples in nested functions are not found by doctest; they would count as run without this.
    assert attempted > 0
