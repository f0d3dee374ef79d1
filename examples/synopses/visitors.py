"""The visitors of a site, drawn from a seed: some come often."""

from __future__ import annotations

import random

VISITORS = 900


def visitors(requests: int, seed: int) -> list[str]:
    """Return the visitor of each request."""
    rng = random.Random(seed)  # noqa: S311  drawn again from the seed, not secret
    return [f"v-{min(int(rng.expovariate(0.003)), VISITORS)}" for _ in range(requests)]
