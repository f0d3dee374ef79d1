"""Where a worker's thread is, a hundred times a second, and what the machine keeps from it.

An instance notes it (:class:`Sampler`); whoever runs it says of a pause what it was made of
(:func:`causes`). A thread that is ready and has no core waits for the machine, whatever it does:
the kernel counts that (``schedstat``), so it is told apart from the work itself.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import FrameType, GeneratorType
from typing import NamedTuple

_EVERY_S = 0.01
#: what is told apart, by a function that the worker is in; the first that fits counts
_PARTS = {
    "_answer": "handover",
    "_start_tasks": "tasks that start",
    "commit_all": "commit",
    "go_on": "commit",
    "check": "open transactions",
}
_PARTS_OF_FILES = {
    "followed_tasks": "copies",
    "standbys": "copies",
    "processing": "processing",
    "group_consumer": "poll",
    "membership": "poll",
}


class Sample(NamedTuple):
    """One look; milliseconds since the look before."""

    at_s: float
    elapsed_ms: float
    ran_ms: float
    #: ready to run, and no core
    waited_ms: float
    part: str
    where: str


class Sampler:
    """Looks at the main thread, and writes a line per look into a file, until the process ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        threading.Thread(target=self._run, name="sampler", daemon=True).start()

    def _run(self) -> None:
        with self._path.open("a", buffering=1 << 16) as file:
            thread = threading.main_thread()
            before_s, ran, waited = time.time(), *_scheduled(thread.native_id or 0)
            while thread.is_alive():
                time.sleep(_EVERY_S)
                frame = sys._current_frames().get(thread.ident or 0)
                now_s = time.time()
                part, where = _place(frame)
                now_ran, now_waited = _scheduled(thread.native_id or 0)
                elapsed, took, kept = (
                    1_000 * (now_s - before_s), (now_ran - ran) / 1e6, (now_waited - waited) / 1e6,
                )  # fmt: skip
                line = f"{now_s:.3f}\t{elapsed:.2f}\t{took:.2f}\t{kept:.2f}\t{part}\t{where}\n"
                file.write(line)
                if int(now_s) != int(before_s):
                    file.flush()
                before_s, ran, waited = now_s, now_ran, now_waited


def _scheduled(native_id: int) -> tuple[int, int]:
    """Nanoseconds a thread ran, and was kept waiting for a core."""
    try:
        fields = Path(f"/proc/{os.getpid()}/task/{native_id}/schedstat").read_text().split()
    except OSError:
        return 0, 0
    return int(fields[0]), int(fields[1])


def _place(frame: FrameType | None) -> tuple[str, str]:
    """Which part of its work a thread is in, and the innermost function of the library."""
    chain: list[tuple[str, str]] = []  # outermost last
    while frame is not None:
        code = frame.f_code
        if "/logstate/" in code.co_filename or "/changelog/" in code.co_filename:
            chain.append((code.co_name, Path(code.co_filename).stem))
        if code.co_name == "run_steps":  # what it drives is not on the stack during a call
            chain += reversed(_delegating(frame.f_locals.get("steps")))
        frame = frame.f_back
    where = next((f"{file}.{name}" for name, file in chain if name != "run_steps"), "outside")
    for name, file in reversed(chain):
        part = _PARTS.get(name) or _PARTS_OF_FILES.get(file)
        if part is not None:
            return part, where
    return "other", where


def _delegating(steps: object) -> list[tuple[str, str]]:
    found = []
    while isinstance(steps, GeneratorType):
        code = steps.gi_code
        found.append((code.co_name, Path(code.co_filename).stem))
        steps = steps.gi_yieldfrom
    return found


def read_samples(path: Path, since_s: float, until_s: float) -> list[Sample]:
    """What was noted between two times."""
    found = []
    for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
        at_s, elapsed, ran, waited, part, where = (line.split("\t") + [""] * 5)[:6]
        if where and since_s < float(at_s) <= until_s:
            sample = Sample(float(at_s), float(elapsed), float(ran), float(waited), part, where)
            found.append(sample)
    return found


def causes(samples: Iterable[Sample]) -> str:
    """What a span was made of: milliseconds per part, and of these without a core."""
    samples = list(samples)
    parts, places = Counter[str](), Counter[str]()
    for one in samples:
        parts[one.part] += round(one.elapsed_ms)
        places[f"{one.part}: {one.where}"] += round(one.elapsed_ms)
    waited = sum(one.waited_ms for one in samples)
    ran = sum(one.ran_ms for one in samples)
    told = ", ".join(f"{part} {ms}" for part, ms in parts.most_common())
    most = ", ".join(f"{place} {ms}" for place, ms in places.most_common(4))
    return f"{told}; ran {ran:.0f}, without a core {waited:.0f}; most in {most}"
