"""The user's settings, by kind of client.

Common settings go to every client that has them: other clients would log a warning for each at
every start. Settings for one kind of client go to that kind, and override the common ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from logstate.contracts.errors import ConfigError
from logstate.kafka.client_config import check_user_config
from logstate.kafka.client_keys import CONSUMER_KEYS, PRODUCER_KEYS

Config = Mapping[str, Any]

_MAX_POLL_INTERVAL = "max.poll.interval.ms"


@dataclass(frozen=True)
class ClientSettings:
    """``kafka``, ``consumer``, ``producer`` and ``admin`` of an Application; may hold secrets.

    >>> common = {"socket.timeout.ms": 9, "linger.ms": 5}
    >>> settings = ClientSettings(common, consumer={"debug": "cgrp"})
    >>> settings.of_consumers()
    {'socket.timeout.ms': 9, 'debug': 'cgrp'}
    >>> settings.of_producers()
    {'socket.timeout.ms': 9, 'linger.ms': 5}
    """

    common: Config = field(default_factory=dict)
    consumer: Config = field(default_factory=dict)
    producer: Config = field(default_factory=dict)
    admin: Config = field(default_factory=dict)

    @classmethod
    def of(cls, *given: Config | None) -> ClientSettings:
        """Build the settings from the four arguments; None is empty."""
        return cls(*({} if config is None else config for config in given))

    def of_consumers(self) -> dict[str, Any]:
        """Return the settings of the group's member and of the readers of changelogs."""
        return {**_without_keys(self.common, PRODUCER_KEYS), **self.consumer}

    def of_producers(self) -> dict[str, Any]:
        """Return the settings of both kinds of producer."""
        return {**_without_keys(self.common, CONSUMER_KEYS), **self.producer}

    def of_admin(self) -> dict[str, Any]:
        """Return the settings of the admin client."""
        return {**_without_keys(self.common, CONSUMER_KEYS | PRODUCER_KEYS), **self.admin}

    @property
    def rack(self) -> str:
        """The rack of the consumers (KIP-392); empty if it is not set."""
        return str(self.of_consumers().get("client.rack", ""))

    def max_poll_interval_ms(self, default_ms: int) -> int:
        """Return the time that the group allows between two polls of a member."""
        return int(self.of_consumers().get(_MAX_POLL_INTERVAL, default_ms))

    def all(self) -> dict[str, Any]:
        """Return every setting, for the redaction of their values."""
        return {**self.common, **self.consumer, **self.producer, **self.admin}

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the settings, without values."""
        kinds: tuple[tuple[str, object, Mapping[str, str]], ...] = (
            ("kafka", self.common, {}),
            ("consumer", self.consumer, dict.fromkeys(PRODUCER_KEYS, "producer")),
            ("producer", self.producer, dict.fromkeys(CONSUMER_KEYS, "consumer")),
            ("admin", self.admin, _ELSEWHERE_THAN_ADMIN),
        )
        for name, config, foreign in kinds:
            if not isinstance(config, Mapping):
                kind = type(config).__name__  # and no value: it may be a secret
                yield f"{name} must be a dict, such as {{'client.rack': 'a'}}; got {kind}"
                continue
            try:
                check_user_config(config, name=name)
            except ConfigError as exc:
                yield from exc.problems
            for key in config:
                if key in foreign:
                    place = foreign[key]
                    yield f"{name}[{key!r}] is a setting of {place}s: give {place}={{{key!r}: ...}}"


_ELSEWHERE_THAN_ADMIN = {
    **dict.fromkeys(CONSUMER_KEYS, "consumer"),
    **dict.fromkeys(PRODUCER_KEYS, "producer"),
}


def _without_keys(config: Config, keys: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in keys}
