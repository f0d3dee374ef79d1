"""A process on a cluster in memory that dies before one of its calls."""

from __future__ import annotations

from collections.abc import Callable

from logstate.testing.fake.brokers import FakeBrokers
from logstate.testing.fake.process import FakeProcess


class MortalProcess(FakeProcess):
    """A process that dies before one of its calls; with ``calls`` None it lives on.

    ``before_call`` lets something happen in the background before each of them.
    """

    def __init__(
        self,
        cluster: FakeBrokers,
        name: str,
        calls: int | None,
        before_call: Callable[[MortalProcess], None],
    ) -> None:
        self.calls = calls
        self._before_call = before_call
        super().__init__(cluster, name)

    @property
    def is_killed(self) -> bool:
        """Asked by each client before each of its calls."""
        self._before_call(self)
        if self.calls is None:
            return False
        self.calls -= 1
        return self.calls < 0

    @is_killed.setter
    def is_killed(self, value: bool) -> None:
        self.calls = 0 if value else self.calls
