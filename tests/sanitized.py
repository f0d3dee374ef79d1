"""Tests of the extension module under AddressSanitizer and UndefinedBehaviorSanitizer.

    ./dev run python -m tests.sanitized                         # the unit tests, a minute
    ./dev run python -m tests.sanitized tests/broker/test_log_conformance.py

Needs gcc. The module is built into a temporary folder; Python allocates every object separately, so
that each access outside of one is found.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "logstate" / "kafka" / "native" / "_records.c"
NAME = "logstate.kafka.native._records"
#: set for pytest, which loads this module as a plugin
BUILT = "LOGSTATE_SANITIZED"
FLAGS = "-g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all"
WARNINGS = "-std=c11 -Wall -Wextra -Wconversion -Werror"
TESTS = ["tests/unit/logstate/kafka/native"]


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "_records.abi3.so"
        include = sysconfig.get_path("include")
        command = ["gcc", *FLAGS.split(), *WARNINGS.split(), "-shared", "-fPIC", f"-I{include}"]
        subprocess.run([*command, str(SOURCE), "-o", str(built)], check=True)
        environment = {
            **os.environ,
            BUILT: str(built),
            "LD_PRELOAD": f"{_library('libasan.so')} {_library('libubsan.so')}",
            # Python itself does not free everything, and RocksDB has its own operators. Little
            # freed memory is kept to find later accesses: one test measures the memory.
            "ASAN_OPTIONS": "detect_leaks=0:alloc_dealloc_mismatch=0:quarantine_size_mb=4",
            "UBSAN_OPTIONS": "print_stacktrace=1",
            "PYTHONMALLOC": "malloc",
        }
        tests = ["-m", "pytest", "-p", "tests.sanitized", "-q", "--no-cov", *(arguments or TESTS)]
        return subprocess.run([sys.executable, *tests], env=environment, check=False).returncode


def _library(name: str) -> str:
    answer = subprocess.check_output(["gcc", f"-print-file-name={name}"], text=True)
    return answer.strip()


def _preload(path: str) -> None:
    """Make the sanitized module the one that every import finds."""
    loader = importlib.machinery.ExtensionFileLoader(NAME, path)
    spec = importlib.util.spec_from_file_location(NAME, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[NAME] = module


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
if BUILT in os.environ:
    _preload(os.environ[BUILT])
