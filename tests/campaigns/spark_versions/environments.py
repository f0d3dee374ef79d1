"""An environment of its own for each version of PySpark, with the wheel of this source.

They are below ``build``, which git ignores, a gigabyte each, and are made once: what is installed
stands in a stamp. The wheel is installed anew each time. Nothing but the version of PySpark is
fixed, so each has what a user gets who installs today.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import NamedTuple

from tests.built_wheel import ROOT, pip

RELEASES = ("4.0", "4.1", "4.2", "4.3")
FOLDER = ROOT / "build" / "spark-versions"
_INSTALL_TIMEOUT_S = 3600


class Environment(NamedTuple):
    """One version of PySpark, installed."""

    release: str
    """As it was asked for, ``4.0``."""
    version: str
    """As it is, ``4.0.5``."""
    python: Path


def environment(release: str, wheel: Path) -> Environment | None:
    """The newest of a release with the project's wheel; None where the index has none."""
    home = FOLDER / release
    python, stamp = home / "bin" / "python", home / ".installed"
    wanted = _digest(release)
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        shutil.rmtree(home, ignore_errors=True)
        venv.create(home, with_pip=True, symlinks=True)
        if not _install(python, f"pyspark[sql,connect]=={release}.*", str(wheel)):
            return None
        stamp.write_text(wanted, "utf-8")
    pip("--python", str(python), "install", "-q", "--no-deps", "--force-reinstall", str(wheel))
    code = "import pyspark; print(pyspark.__version__)"
    version = subprocess.check_output([python, "-P", "-c", code], text=True, cwd=home).strip()
    return Environment(release, version, python)


def _install(python: Path, *wanted: str) -> bool:
    command = ["--python", str(python), "install", "--quiet", *wanted]
    try:
        pip(*command, timeout=_INSTALL_TIMEOUT_S)
    except AssertionError as error:
        if "No matching distribution found for pyspark" in str(error):
            return False
        raise
    return True


def _digest(release: str) -> str:
    """Changes where other packages would be installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    parts = [release, project["dependencies"], sys.executable, sys.version]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
