"""The Python programs: each in an environment of its own, made at its first run.

Their libraries ask for versions of shared dependencies that exclude each other.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from logstate.local_broker.jars import cache_directory

APPS = Path(__file__).resolve().parent / "peers" / "apps"

_REQUIREMENTS = {
    "quix": ("quixstreams==3.28.1", "rocksdict==0.3.29"),
    # cramjam: lz4 for the client that Faust uses.
    "faust": (
        "faust-streaming==0.15.3",
        "uvloop>=0.21",
        "rocksdict==0.3.29",
        "orjson>=3.10",
        "cramjam>=2.8",
    ),
    "bytewax": ("bytewax==0.21.1", "confluent-kafka==2.12.2", "orjson>=3.10"),
    "raw": ("confluent-kafka>=2.12", "orjson>=3.10"),
}


def interpreter(peer: str) -> Path:
    """The Python of a peer's environment; installs it at the first call."""
    requirements = _REQUIREMENTS[peer]
    digest = hashlib.sha256("\n".join((*requirements, sys.version)).encode()).hexdigest()[:8]
    folder = cache_directory() / f"performance-{peer}-{digest}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        print(
            f"making an environment for {peer} (once): {', '.join(requirements)}", file=sys.stderr
        )
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        command = [str(python), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
        # pip's own words say what could not be had.
        subprocess.run([*command, *requirements], check=True, stdout=sys.stderr, timeout=900)
        (folder / "complete").touch()
    return python


def program(peer: str) -> Path:
    """The peer's program."""
    return APPS / f"{peer}_app.py"
