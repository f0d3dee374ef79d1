"""What a mistake is, and how its answer is judged."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Mistake:
    """A mistake; ``expected`` are parts of the answer."""

    name: str
    make: Callable[[], object]
    expected: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """What became of a mistake."""

    name: str
    kind: Literal["answered", "silent", "unhelpful"]
    answer: str
    missing: tuple[str, ...] = ()


MISTAKES: list[Mistake] = []


def mistake(*expected: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Register a function that makes a mistake; its answer has all of ``expected`` in it."""

    def register(make: Callable[[], object]) -> Callable[[], object]:
        MISTAKES.append(Mistake(make.__name__, make, expected))
        return make

    return register


def judged(one: Mistake) -> Verdict:
    """Make the mistake and read the answer: the exception, or else what was logged."""
    said = _Said()
    logging.getLogger("logstate").addHandler(said)
    try:
        one.make()
    except Exception as exc:  # noqa: BLE001  whatever it is, it is the answer
        answer = f"{type(exc).__name__}: {exc}"
    else:
        answer = "\n".join(said.lines)
    finally:
        logging.getLogger("logstate").removeHandler(said)
    if not answer:
        return Verdict(one.name, "silent", "")
    missing = tuple(part for part in one.expected if part not in answer)
    return Verdict(one.name, "unhelpful" if missing else "answered", answer, missing)


class _Said(logging.Handler):
    """Warnings and worse."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
