"""What an Application may be told, checked before anything is opened."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from logstate.contracts.errors import ConfigError
from logstate.kafka.client_config import check_user_config
from logstate.topology.plan.plan import Topology


def check_settings(
    topology: object,
    *,
    bootstrap: str,
    guarantee: str,
    commit_interval: object,
    checkpoint_interval: object,
    checkpoint_bytes: object,
    offset_reset: object,
    changelog_writes: str,
    group_protocol: str,
    kafka: Mapping[str, Any],
) -> None:
    """Raises ConfigError with every problem at once; it shows no value of ``kafka``."""
    problems: list[str] = []
    if not isinstance(topology, Topology):
        problems.append(
            f"topology must be what StreamsBuilder.build() returns; got {type(topology).__name__}"
        )
    if not bootstrap:
        problems.append("bootstrap is empty; give the brokers as 'host:port,host:port'")
    for name, value, allowed in (
        ("guarantee", guarantee, ("exactly_once", "at_least_once")),
        ("changelog_writes", changelog_writes, ("commit", "update")),
        ("group_protocol", group_protocol, ("consumer", "classic")),
    ):
        if value not in allowed:
            problems.append(f"{name} must be {allowed[0]!r} or {allowed[1]!r}; got {value!r}")
    if offset_reset not in ("earliest", "latest", "none") and not isinstance(
        offset_reset, timedelta
    ):
        problems.append(
            "offset_reset must be 'earliest', 'latest', 'none' or a timedelta back from now; got"
            f" {offset_reset!r}"
        )
    for name, interval, least in (
        ("commit_interval", commit_interval, timedelta(milliseconds=1)),
        ("checkpoint_interval", checkpoint_interval, timedelta(0)),
    ):
        if not isinstance(interval, timedelta):
            problems.append(
                f"{name} must be a timedelta; got {interval!r}. Write timedelta(milliseconds=...)"
            )
        elif interval < least:
            problems.append(f"{name} must be at least {least}; got {interval}")
    if not isinstance(checkpoint_bytes, int) or checkpoint_bytes < 1:
        problems.append(f"checkpoint_bytes must be at least 1; got {checkpoint_bytes}")
    try:
        check_user_config(kafka)
    except ConfigError as exc:
        problems.extend(exc.problems)
    if problems:
        raise ConfigError(problems)
