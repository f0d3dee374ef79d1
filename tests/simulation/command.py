"""``python -m tests.simulation`` in a process of its own: measuring coverage makes it slow.

The longest runs begin when the tests begin, one after the other, on the core that other tests leave
idle; whoever wants their output later waits for what is left.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_TIMEOUT_S = 1_800

#: what tests ask for that takes minutes
FOUR_THOUSAND_MORE = ("--seeds", "1000..5000")
THOUSANDS_OF_PAIRS = ("--systematic", "--pairs", "3000")

_begun: dict[tuple[str, ...], Future[str]] = {}
_running: list[subprocess.Popen[str]] = []
_one_at_a_time = ThreadPoolExecutor(1)


def begin(*arguments: str) -> None:
    """Begin a run whose output somebody will ask for."""
    _begun[arguments] = _one_at_a_time.submit(_output, arguments, "0", niceness=10)


def simulation(*arguments: str, hash_seed: str = "0") -> str:
    """The command's output; AssertionError where it exits with an error."""
    begun = _begun.get(arguments)
    return _output(arguments, hash_seed) if begun is None else begun.result()


def end_all() -> None:
    """Nothing runs on after the tests, whyever they end."""
    for begun in _begun.values():
        begun.cancel()
    for process in _running:
        process.kill()


def _output(arguments: tuple[str, ...], hash_seed: str, *, niceness: int = 0) -> str:
    process = subprocess.Popen(
        ["nice", "-n", str(niceness), sys.executable, "-m", "tests.simulation", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )
    _running.append(process)
    try:
        said, complained = process.communicate(timeout=_TIMEOUT_S)
    finally:
        process.kill()
        _running.remove(process)
    assert process.returncode == 0, said[-4_000:] + complained[-4_000:]
    return said
