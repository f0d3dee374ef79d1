"""What varies between schedules of the flow: its variants beside everything that always varies."""

from __future__ import annotations

from logstate.testing.simulation import swarm
from logstate.testing.simulation.swarm import Swarm
from tests.campaigns.simulation.flow import FURTHER_VARIANTS, VARIANTS


def draw(seed: int) -> Swarm:
    """The configuration of a seed."""
    return swarm.draw(seed, VARIANTS, FURTHER_VARIANTS)
