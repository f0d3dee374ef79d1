"""Transfers drawn from a seed, and the balances that they lead to."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

from examples.accounts.app import BANK, Transfer

ACCOUNTS = 40
DEPOSIT_CENTS = 100_000


def transfers(count: int, seed: int) -> list[Transfer]:
    """Draw a deposit for each account, then transfers between them, ``count`` in all."""
    rng = random.Random(seed)  # noqa: S311  drawn again from the seed, not secret
    names = [f"account-{number}" for number in range(ACCOUNTS)]
    found = [Transfer(BANK, name, DEPOSIT_CENTS) for name in names]
    while len(found) < count:
        source, target = rng.sample(names, 2)
        found.append(Transfer(source, target, rng.randrange(1, 5_000)))
    return found[:count]


def balances(made: Iterable[Transfer]) -> dict[str, int]:
    """Return the cents of each account after the transfers."""
    found: Counter[str] = Counter()
    for transfer in made:
        found[transfer.source] -= transfer.cents
        found[transfer.target] += transfer.cents
    return dict(found)
