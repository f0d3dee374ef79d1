"""The wheel of this source, for environments that are to have what users install."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {
    "logstate": "logstate",
    "topology": "logstate/topology",
    "changelog": "logstate/changelog",
}


def built_wheel(folder: Path) -> Path:
    """Build it below ``folder``, without the network."""
    # A copy, because a build leaves a `build` folder whose old modules end up in the next wheel.
    source, target = folder / "source", folder / "wheel"
    for name in FOLDERS:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    command = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(target)]
    pip(*command, str(source))
    (built,) = target.glob("logstate-*.whl")
    return built


def installed(wheel: Path, home: Path) -> Path:
    """Create an environment that has the wheel and none of its dependencies; return its Python."""
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    pip("--python", str(python), "install", "--quiet", "--no-deps", str(wheel))
    return python


def pip(*arguments: str, timeout: int = 500) -> None:
    """Run the pip of this Python; an AssertionError has what it said."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
    assert answer.returncode == 0, answer.stdout + answer.stderr
