"""The probe of the fake cluster: it answers unless a test has sent the brokers away."""

from __future__ import annotations

from logstate.contracts.seams import Complaints
from logstate.testing.fake.brokers import FakeBrokers


class FakeProbe:
    """See :class:`logstate.contracts.seams.Probe`; ``FakeCluster.away`` is what it notices."""

    brokers = "fake:9092"

    def __init__(self, cluster: FakeBrokers) -> None:
        self._cluster = cluster
        #: what it was told last
        self.folds = False

    def ask(self, timeout_s: float) -> bool:  # noqa: ARG002  it knows at once
        return self._cluster.away is None

    def complaints(self) -> Complaints:
        away = self._cluster.away
        return Complaints() if away is None else Complaints(1, away, "refused you" in away)

    def fold(self, *, is_away: bool) -> None:
        self.folds = is_away

    def close(self) -> None:
        self.folds = False
