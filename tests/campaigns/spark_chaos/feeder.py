"""Records for every input, in event-time order except for some late events."""

from __future__ import annotations

import random
import time

from tests.campaigns.spark_chaos.flow import BASKETS, EVENTS, ITEMS, MARK, NO_MARK, ORDER, PAYMENT
from tests.campaigns.toolkit.feeder import Feeder

USERS = 40
_BASKETS, _ITEMS = 120, 12
#: one in so many events is late, by more than any window and grace
_LATE_ONE_IN, _LATE_MS = 20, 9_000
_KINDS = random.Random(0).choices((ORDER, PAYMENT, MARK), (60, 32, 8), k=997)


class StoreFeeder(Feeder):
    """Event time follows the wall clock; a payment is for one of the users of the last orders."""

    def __init__(self, bootstrap: str, prefix: str, seed: int, per_second: int) -> None:
        super().__init__(bootstrap, per_second)
        self._prefix = prefix
        self._random = random.Random(seed)
        self._per_second = per_second
        self._now_ms = time.time_ns() // 1_000_000
        self._ordered: list[str] = ["user-0"]

    def start(self) -> None:
        """Send the items before their baskets."""
        for number in range(_ITEMS):
            self._send(ITEMS, f"item-{number}", f"price-{number}")
        assert self.flush() == 0
        super().start()

    def send_next(self) -> None:
        number, draw = self.sent, self._random.randrange
        self.sent += 1
        self._now_ms += 1_000 // self._per_second
        kind = _KINDS[number % len(_KINDS)]
        user = f"user-{draw(USERS)}"
        value = f"{kind}-{number}"
        if kind == PAYMENT:
            user = self._ordered[draw(len(self._ordered))]
        elif kind == ORDER:
            self._ordered = [*self._ordered[-9:], user]
        elif draw(4) == 0:
            value = NO_MARK
        self._send(EVENTS, user, value, _LATE_MS if draw(_LATE_ONE_IN) == 0 else 0)
        if draw(10) == 0:
            self._send(BASKETS, f"basket-{draw(_BASKETS)}", f"item-{draw(_ITEMS)}:{number}")
        if draw(40) == 0:
            self._send(ITEMS, f"item-{draw(_ITEMS)}", f"price-{number}")

    def _send(self, topic: str, key: str, value: str, late_ms: int = 0) -> None:
        self.send(f"{self._prefix}-{topic}", key, value, self._now_ms - late_ms)
