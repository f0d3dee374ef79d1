"""Types flow through the DSL: mypy agrees with every assertion and refuses every wrong line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def package_tree(folder: Path) -> None:
    """The library under its import names, which mypy cannot see through an editable install."""
    package = folder / "logstate"
    package.mkdir()
    for path in (ROOT / "logstate").iterdir():
        (package / path.name).symlink_to(path)
    for name in ("topology", "changelog"):
        (package / name).symlink_to(ROOT / name)


def test_the_dsl_is_typed_end_to_end(tmp_path: Path) -> None:
    package_tree(tmp_path)
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nstrict = true\nfollow_imports = silent\n", encoding="utf-8")
    answer = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--config-file", str(config)),
            *("--cache-dir", str(tmp_path / "cache")),
            str(Path(__file__).with_name("typed_topology.py")),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(tmp_path)},
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
