"""The probe of the fake cluster: it answers unless a test has sent the brokers away."""

from __future__ import annotations

from logstate.contracts.clients import ClientErrors
from logstate.testing.fake.brokers import FakeBrokers


class FakeProbe:
    """See :class:`logstate.contracts.clients.Probe`; ``FakeCluster.away`` is what it notices."""

    brokers = "fake:9092"

    def __init__(self, cluster: FakeBrokers) -> None:
        self._cluster = cluster
        #: the last argument of ``fold``
        self.folds = False

    def ask(self, timeout_s: float) -> bool:  # noqa: ARG002  it knows at once
        return self._cluster.away is None

    def client_errors(self) -> ClientErrors:
        away = self._cluster.away
        return ClientErrors() if away is None else ClientErrors(1, away, "refused you" in away)

    def fold(self, *, is_away: bool) -> None:
        self.folds = is_away

    def close(self) -> None:
        self.folds = False
