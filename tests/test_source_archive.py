"""What a release consists of: the source archive, the wheel that is built from it, their metadata.

`./dev smoke` installs both on each Python, which takes minutes and the network.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from types import ModuleType

import pytest

from tests.built_wheel import ROOT
from tests.test_wheel import source_modules

pytestmark = pytest.mark.slow  # they are built

PROJECT = "https://github.com/logstate/logstate"
#: what setuptools writes into every source archive
_GENERATED = re.compile(r"PKG-INFO|setup\.cfg|logstate\.egg-info/.*")


def loaded_smoke() -> ModuleType:
    spec = importlib.util.spec_from_file_location("smoke", ROOT / ".ci" / "smoke.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


smoke = loaded_smoke()


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    found: list[Path] = smoke.built(tmp_path_factory.mktemp("release"))
    return found


@pytest.fixture(scope="module")
def metadata(archives: list[Path]) -> Message:
    with zipfile.ZipFile(archives[0]) as wheel:
        (name,) = [one for one in wheel.namelist() if one.endswith(".dist-info/METADATA")]
        return message_from_bytes(wheel.read(name))


def test_the_source_archive_has_exactly_the_files_of_the_repository(archives: list[Path]) -> None:
    with tarfile.open(archives[1]) as archive:
        files = {one.name.partition("/")[2] for one in archive if one.isfile()}
    packed = {name for name in files if not _GENERATED.fullmatch(name)}
    assert packed == set(smoke.tracked())
    assert {"CHANGELOG.md", "docs/queries.md", "examples/08_service/app.py", "dev"} <= packed


def test_the_wheel_of_the_source_archive_has_every_module(archives: list[Path]) -> None:
    with zipfile.ZipFile(archives[0]) as wheel:
        packed = {name for name in wheel.namelist() if name.endswith(".py")}
    assert packed == set(source_modules())


def test_the_metadata_has_the_addresses_of_the_project(metadata: Message) -> None:
    urls = dict(one.split(", ", 1) for one in metadata.get_all("Project-URL", []))
    assert {"Homepage", "Documentation", "Changelog", "Issues"} <= urls.keys()
    assert all(url.startswith(PROJECT) for url in urls.values())


def test_links_of_the_description_work_outside_of_the_repository(metadata: Message) -> None:
    description = str(metadata.get_payload())
    links = re.findall(r"\]\(([^)]+)\)|^\[[^]]+\]: (\S+)", description, re.MULTILINE)
    targets = ["".join(one) for one in links]
    assert len(targets) > 20
    for target in targets:
        assert target.startswith(f"{PROJECT}/"), target
        page = re.sub(rf"^{PROJECT}/(blob|tree)/main/|#.*", "", target)
        assert (ROOT / page).exists(), target


def test_the_smoke_test_finds_this_python_and_no_other_version() -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert smoke.interpreter(version) is not None
    assert smoke.interpreter("3.0") is None


def test_the_smoke_test_refuses_an_unsupported_version() -> None:
    with pytest.raises(SystemExit, match=r"'2.7' is not one of the supported versions: 3\.11"):
        smoke.main(["2.7"])
