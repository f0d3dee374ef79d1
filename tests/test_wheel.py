"""The wheel, built from a copy of the source and used in an empty environment outside of it.

The empty environment sees the third-party packages of this one through a path file. Path files of
packages seen that way are not processed, so the editable install of this environment stays out.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.built_wheel import FOLDERS, ROOT, built_wheel, installed
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow  # it is built, and installed

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def source_modules() -> dict[str, str]:
    """Path in the wheel of every module of ours, with its path in the source."""
    found = {"pyspark_logstate.py": "changelog/pyspark_logstate.py"}
    for folder, target in FOLDERS.items():
        for path in (ROOT / folder).rglob("*.py"):
            if "__pycache__" not in path.parts:
                inside = path.relative_to(ROOT / folder).as_posix()
                found[f"{target}/{inside}"] = f"{folder}/{inside}"
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def run(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a program of an environment that has the wheel, somewhere outside of the source."""
    home = tmp_path_factory.mktemp("empty") / "venv"
    installed(wheel, home)
    library = home / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (library / "parent.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    elsewhere = tmp_path_factory.mktemp("elsewhere")

    def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [home / "bin" / program, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=elsewhere,
            timeout=PATIENCE_S,
        )

    return run


def python(run: Run, code: str) -> str:
    answer = run("python", "-c", code)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip()


def test_the_wheel_holds_every_module_under_its_import_name(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.endswith(".py")}

    # A package missing here is missing in the list of pyproject.toml.
    assert set(source_modules()) <= packed
    assert packed == set(source_modules())


def test_the_wheel_holds_the_page_of_an_instance(wheel: Path) -> None:
    parts = list((ROOT / "logstate" / "http" / "web").iterdir())
    with zipfile.ZipFile(wheel) as archive:
        packed = {part.name: archive.read(f"logstate/http/web/{part.name}") for part in parts}

    assert packed == {part.name: part.read_bytes() for part in parts}
    assert "page.html" in packed


def test_the_wheel_is_typed_and_licensed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()

    assert "logstate/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_installed_package_comes_from_the_wheel_and_knows_its_version(run: Run) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    where, version = python(
        run, "import logstate; print(logstate.__file__); print(logstate.__version__)"
    ).splitlines()

    assert not Path(where).is_relative_to(ROOT)
    assert version == project["version"]


def test_every_module_without_an_optional_library_can_be_imported(run: Run) -> None:
    core = [
        "logstate.topology",
        "logstate.changelog",
        "logstate.local_broker.broker",
        "logstate.testing",
        *(
            path.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
            for path in source_modules()
            if path.startswith("logstate/topology/")
        ),
    ]
    python(run, f"import importlib\nfor name in {core}: importlib.import_module(name)")


def test_every_public_name_is_there(run: Run) -> None:
    python(run, "import logstate\nfor name in logstate.__all__: getattr(logstate, name)")


@pytest.mark.spark
def test_the_spark_readers_import_without_the_kafka_client_and_rocksdb(run: Run) -> None:
    python(
        run,
        "import sys\n"
        "sys.modules['confluent_kafka'] = sys.modules['rocksdict'] = None\n"
        "import logstate.changelog.spark.source, pyspark_logstate",
    )


@pytest.mark.spark
def test_spark_finds_the_data_source_module_by_its_name(run: Run) -> None:
    found = python(
        run,
        "import pkgutil\n"
        "print([m.name for m in pkgutil.iter_modules() if m.name.startswith('pyspark_log')])",
    )
    assert found == "['pyspark_logstate']"


def test_the_command_runs_under_both_of_its_names(run: Run) -> None:
    for answer in (run("logstate", "--help"), run("python", "-m", "logstate", "--help")):
        assert answer.returncode == 0, answer.stderr
        assert "broker" in answer.stdout


def test_the_command_without_its_extra_says_what_to_install(run: Run) -> None:
    answer = run(
        "python", "-c", "import sys; sys.modules['typer'] = None; import logstate.cli.main"
    )

    assert answer.returncode == 1
    assert "pip install 'logstate[cli]'" in answer.stderr
    assert "Traceback" not in answer.stderr
