"""Orders and their payments, in event-time order except for some late ones."""

from __future__ import annotations

import random

from tests.campaigns.toolkit.feeder import Feeder

USERS = 60
#: event time between two orders
STEP_MS = 10
START_MS = 1_700_000_000_000
#: one in so many orders is late by more than window and grace
_LATE_ONE_IN, _LATE_MS = 20, 12_000


class OrderFeeder(Feeder):
    """An order without its payment is input too: the brokers may be away between the two."""

    def __init__(self, bootstrap: str, prefix: str, seed: int, per_second: int) -> None:
        super().__init__(bootstrap, per_second)
        self._prefix = prefix
        self._rng = random.Random(seed)

    def send_next(self) -> None:
        number = self.sent
        user = f"user-{self._rng.randrange(USERS)}"
        late_ms = _LATE_MS if self._rng.randrange(_LATE_ONE_IN) == 0 and number > 2_000 else 0
        when = START_MS + number * STEP_MS - late_ms - (5 if late_ms else 0)
        if self.send(f"{self._prefix}-orders", user, f"o-{number}", when) and self.send(
            f"{self._prefix}-payments", user, f"p-{number}", when
        ):
            self.sent += 1
