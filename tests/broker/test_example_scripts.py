"""The scripts of examples/scripts from an installed wheel, with the packages that each lists."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.built_wheel import ROOT, built_wheel, installed
from tests.patience import PATIENCE_S, until

FOLDER = ROOT / "examples" / "scripts"
ONCE = ("dream", "is", "not", "or", "perchance", "question", "sleep", "that", "the")
RUNS_SHARE_NO_SECOND_S = 4
#: what each prints
PRINTED = {
    "dead_letters.py": """\
attic: 24.0
hall: 19.0
dead letter: b'hall' b'warm': could not convert string to float: 'warm'
""",
    "orders_per_second.py": """\
late by 1101 ms: 500 cents of ada
second 0: ada spent 435 cents
second 0: bob spent 900 cents
second 1: ada spent 400 cents
second 2: ada spent 80 cents
""",
    "orders_with_customers.py": """\
Chile: 1000 cents
Norway: 250 cents
Peru: 900 cents
unknown: 75 cents
""",
    "service.py": """\
GET /spent/ada: 200 {"cents":375}
GET /spent/eve: 404 {"detail":"eve has no orders"}
GET /state/stores/spent/bob: a row with the value 900
""",
    "state_in_sql.py": """\
[('p-1', 7), ('p-2', 1)]
[('tea', 1750), ('rum', 1900)]
""",
    "word_count.py": "  4 to\n  2 be\n" + "".join(f"  1 {word}\n" for word in ONCE),
}
#: what some print when they run again on the same broker
AGAIN = {
    "orders_per_second.py": PRINTED["orders_per_second.py"],
    "word_count.py": "  8 to\n  4 be\n" + "".join(f"  2 {word}\n" for word in ONCE),
}
_METADATA = re.compile(r"^# /// script$\s(?P<content>(?:^#(?: .*)?$\s)+)^# ///$", re.MULTILINE)


def metadata(script: Path) -> dict[str, Any]:
    """The inline metadata of a script, as PEP 723 defines it."""
    (found,) = _METADATA.finditer(script.read_text(encoding="utf-8"))
    lines = (line.removeprefix("#").removeprefix(" ") for line in found["content"].splitlines())
    return tomllib.loads("\n".join(lines))


def needs(script: Path) -> list[Requirement]:
    return [Requirement(one) for one in metadata(script)["dependencies"]]


def project() -> dict[str, Any]:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found: dict[str, Any] = tomllib.loads(text)["project"]
    return found


@cache
def packages_of_modules() -> Mapping[str, list[str]]:
    # The installation of this source has no files in its package.
    return importlib.metadata.packages_distributions() | {"logstate": ["logstate"]}


def scripts() -> list[Path]:
    return sorted(FOLDER.glob("*.py"))


@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.name)
def test_a_script_lists_exactly_the_packages_that_it_imports(script: Path) -> None:
    packages = packages_of_modules()
    imported = set()
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    foreign = imported - sys.stdlib_module_names - {"__future__"}
    listed = needs(script)
    assert {canonicalize_name(packages[one][0]) for one in foreign} == {
        canonicalize_name(one.name) for one in listed
    }
    (own,) = (one for one in listed if one.name == "logstate")
    assert own.extras <= project()["optional-dependencies"].keys()
    assert metadata(script)["requires-python"] == project()["requires-python"]


def closure(requirements: list[Requirement]) -> dict[str, importlib.metadata.Distribution]:
    """The distributions that pip would install for them, by name."""
    found: dict[str, importlib.metadata.Distribution] = {}
    seen, left = set[tuple[str, str]](), list(requirements)
    while left:
        wanted = left.pop()
        name = canonicalize_name(wanted.name)
        found[name] = distribution = importlib.metadata.distribution(name)
        for extra in ({"", *wanted.extras}) - {extra for one, extra in seen if one == name}:
            seen.add((name, extra))
            for text in distribution.requires or ():
                need = Requirement(text)
                if need.marker is None or need.marker.evaluate({"extra": extra}):
                    left.append(need)
    return found


def link_packages(requirements: list[Requirement], folder: Path) -> None:
    """Link what these requirements install, except logstate, from this environment to a folder."""
    for name, distribution in closure(requirements).items():
        tops = {one.parts[0] for one in distribution.files or () if name != "logstate"}
        for top in tops - {"..", "__pycache__"}:
            if not (folder / top).is_symlink():
                (folder / top).symlink_to(Path(str(distribution.locate_file(top))))


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That of an environment with the wheel."""
    wheel = built_wheel(tmp_path_factory.mktemp("built"))
    return installed(wheel, tmp_path_factory.mktemp("environment") / "venv")


def variables(tmp_path: Path, script: Path) -> Iterator[tuple[str, str]]:
    for name in ("home", "packages"):
        (tmp_path / name).mkdir()
    link_packages(needs(script), tmp_path / "packages")
    yield "PATH", os.environ["PATH"]
    yield "HOME", str(tmp_path / "home")
    yield "PYTHONPATH", str(tmp_path / "packages")


@pytest.mark.slow
@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.name)
def test_a_script_prints_its_results_and_ends(
    script: Path, python: Path, bootstrap: str, tmp_path: Path
) -> None:
    environment = dict(variables(tmp_path, script))
    (work := tmp_path / "work").mkdir()
    file = work / script.name
    file.write_bytes(script.read_bytes())
    began_s = 0.0
    runs: list[tuple[list[str], dict[str, str], str]] = [([bootstrap], {}, PRINTED[script.name])]
    if script.name in AGAIN:
        runs.append(([], {"LOGSTATE_BOOTSTRAP": bootstrap}, AGAIN[script.name]))
    for arguments, variable, expected in runs:
        # Orders per second add up if two runs share a second; a run writes three seconds ahead.
        until(lambda since=began_s: time.time() >= since + RUNS_SHARE_NO_SECOND_S)
        began_s = time.time()
        answer = subprocess.run(
            [python, file.name, *arguments],
            cwd=work,
            env=environment | variable,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert answer.returncode == 0, answer.stderr
        # A function prints again when the transaction of its record was aborted.
        printed = "".join(dict.fromkeys(answer.stdout.splitlines(keepends=True)))
        assert printed == expected, answer.stderr
    assert {one.name for one in work.iterdir()} <= {script.name, "state"}
