"""What a planted bug is, and how it gets into the code and out again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from logstate.testing.simulation.swarm import Swarm
from tests.campaigns.simulation.schedule import Schedule

#: replaces an attribute of a class or module until the bug is taken out
Patch = Callable[[Any, str, Any], None]


@dataclass(frozen=True)
class Bug:
    """A bug that can be planted."""

    name: str
    #: what the code does wrong, in one line
    says: str
    plant: Callable[[Patch], None]
    #: how well a schedule suits it; None where any will do
    needs: Callable[[Swarm], int] | None = None
    #: makes the schedule of a seed
    make: Callable[[int], Schedule] = Schedule.of


BUGS: dict[str, Bug] = {}


class StaleBug(AssertionError):
    """What a planted bug replaces is not there any more: it is out of date."""


def bug(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
    """Register a function that plants a bug; its docstring says what goes wrong."""
    assert plant.__doc__ is not None
    name = plant.__name__
    BUGS[name] = Bug(name, plant.__doc__.strip().splitlines()[0], plant)
    return plant


def rare_bug(
    needs: Callable[[Swarm], int],
) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Register a bug that takes certain faults to show; ``needs`` says how many there are."""

    def register(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        bug(plant)
        BUGS[plant.__name__] = replace(BUGS[plant.__name__], needs=needs)
        return plant

    return register


def scenario_bug(
    make: Callable[[int], Schedule],
) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Register a bug that shows in schedules of another kind."""

    def register(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        bug(plant)
        BUGS[plant.__name__] = replace(BUGS[plant.__name__], make=make)
        return plant

    return register


def faults(swarm: Swarm, kind: str, steps: Collection[str] = ()) -> int:
    """Faults of a kind, at these steps if any are named."""
    return sum(f.kind == kind and (not steps or f.step in steps) for f in swarm.faults)


def of_variant(variant: str) -> Callable[[Swarm], int]:
    """For a bug of operators or stores that only one variant of the flow has."""
    return lambda swarm: swarm.variant == variant


@contextmanager
def planted(found: Bug) -> Iterator[None]:
    """The bug is in the code inside the block."""
    undo: list[tuple[Any, str, Any]] = []

    def patch(target: Any, name: str, value: Any) -> None:
        if name not in target.__dict__:
            raise StaleBug(f"{found.name} replaces {target.__name__}.{name}, which is not there")
        undo.append((target, name, target.__dict__[name]))
        setattr(target, name, value)

    found.plant(patch)
    try:
        yield
    finally:
        for target, name, value in reversed(undo):
            setattr(target, name, value)
