"""A client that only checks whether the brokers respond.

It has its own connections, so its result does not depend on what the worker's clients wait for, and
it is called from another thread than theirs. An idle one costs a connection; a check is a
request for the metadata of one topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from logstate.contracts.clients import ClientErrors
from logstate.kafka.client_lines import ClientLines

#: every cluster with transactions has it; a principal that may not see it gets a response too
_ANY_TOPIC = "__transaction_state"


class KafkaProbe:
    """The probe of :class:`logstate.contracts.clients.Probe`."""

    def __init__(self, config: Mapping[str, Any], lines: ClientLines) -> None:
        self.brokers = str(config["bootstrap.servers"])
        self._lines = lines
        lines.is_watched = True
        self._client = AdminClient({**config, "error_cb": lines.failed})

    def ask(self, timeout_s: float) -> bool:
        try:
            self._client.list_topics(_ANY_TOPIC, timeout=timeout_s)
        except KafkaException:
            return False
        return True

    def client_errors(self) -> ClientErrors:
        self._client.poll(0)
        return self._lines.take()

    def fold(self, *, is_away: bool) -> None:
        self._lines.is_away = is_away

    def close(self) -> None:
        """End the counting: from now on the clients' lines are logged again."""
        self._lines.is_watched = self._lines.is_away = False
