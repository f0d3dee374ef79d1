"""Validate the settings of topics that an application creates for itself.

Results depend on a few settings of these topics: timestamps must be those of the records, and
nothing that is needed may be deleted. Those are refused, all other settings of brokers are passed
on.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from logstate.contracts.setting_rules import mapping, shown

_POLICY = "cleanup.policy"
_TIMESTAMPS = "message.timestamp.type"
#: topic settings of brokers (Kafka 4.1); unknown names pass unless they resemble one of these
_NUMBERS = frozenset((
    "delete.retention.ms", "file.delete.delay.ms", "flush.messages", "flush.ms",
    "index.interval.bytes", "local.retention.bytes", "local.retention.ms",
    "max.compaction.lag.ms", "max.message.bytes", "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms", "message.timestamp.difference.max.ms",
    "min.compaction.lag.ms", "min.insync.replicas", "retention.bytes", "retention.ms",
    "segment.bytes", "segment.index.bytes", "segment.jitter.ms", "segment.ms",
))  # fmt: skip
_KNOWN = _NUMBERS | {
    _POLICY, _TIMESTAMPS, "compression.gzip.level", "compression.lz4.level", "compression.type",
    "compression.zstd.level", "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas", "message.downconversion.enable",
    "min.cleanable.dirty.ratio", "preallocate", "remote.copy.disable",
    "remote.log.delete.on.disable", "remote.storage.enable", "unclean.leader.election.enable",
}  # fmt: skip
_RETENTIONS = ("retention.ms", "retention.bytes")


class RetentionLimit(NamedTuple):
    """A setting by which brokers delete records by age or by size."""

    setting: str
    value: int
    #: whether it may delete rows that the store still has: a size limit does not consider the age
    deletes_rows: bool

    @property
    def is_of_age(self) -> bool:
        """Whether it is an age, which brokers compare with event time by their own clock."""
        return self.setting == "retention.ms"


def retention_limits(config: Mapping[Any, object], kept_ms: int) -> Iterator[RetentionLimit]:
    """Yield the limits that are set for a changelog whose store keeps its rows for this time."""
    for setting in _RETENTIONS:
        value = _number(config.get(setting))
        if value is not None and value >= 0:
            is_too_short = setting == "retention.bytes" or value < kept_ms
            yield RetentionLimit(setting, value, is_too_short)


def age_limit(config: Mapping[str, str]) -> int | None:
    """Return the age in ms at which brokers delete records of a topic; None if they do not.

    Also None if they delete by size, which does not depend on the age of the records.

    >>> age_limit({"cleanup.policy": "compact,delete", "retention.ms": "90000000"})
    90000000
    >>> age_limit({"cleanup.policy": "compact", "retention.ms": "90000000"}) is None
    True
    """
    if "delete" not in config.get(_POLICY, "delete"):
        return None
    limits = list(retention_limits(config, 0))
    if any(not limit.is_of_age for limit in limits):
        return None
    return next((limit.value for limit in limits), None)


def problems_of_all(given: object, *, repartitions: bool, kept_ms: int | None) -> Iterator[str]:
    """Yield what is wrong with ``topic_config``, which applies to every internal topic.

    ``repartitions``: there are repartition topics. ``kept_ms``: the longest retention of a windowed
    store; None if no store is windowed.
    """
    name = "topic_config"
    yield from _of_values(name, given)
    config: Mapping[object, object] = given if isinstance(given, Mapping) else {}
    if _POLICY in config:
        yield (
            f"{name}[{_POLICY!r}] cannot be set: logstate sets it for each internal topic."
            " Changelogs must be compacted, or they lose state; repartition topics must not be, or"
            f" they lose records. Remove it; got {config[_POLICY]!r}"
        )
    for setting, value, deletes_rows in retention_limits(config, kept_ms or 0):
        if repartitions:
            yield (
                f"{name}[{setting!r}]={value} applies to repartition topics too, whose records are"
                " deleted only after they are processed: brokers would delete waiting records, and"
                " compare event time with their own clock. Remove it, or give changelog_config= of"
                " the store that it is meant for"
            )
        elif kept_ms is not None and deletes_rows:
            yield (
                f"{name}[{setting!r}]={value} would delete rows of windowed stores from their"
                f" changelogs, which keep them for {kept_ms} ms: they would be missing after a"
                " restore. Remove it"
            )


def problems_of_changelog(
    given: object, *, store: str, is_windowed: bool, kept_ms: int | None
) -> Iterator[str]:
    """Yield what is wrong with ``changelog_config`` of a store."""
    name = f"changelog_config of store {store!r}"
    yield from _of_values("changelog_config", given, f" of store {store!r}")
    config: Mapping[object, object] = given if isinstance(given, Mapping) else {}
    policy = config.get(_POLICY)
    if isinstance(policy, str):
        yield from _of_policy(name, policy, is_windowed=is_windowed)
    for setting, value, deletes_rows in retention_limits(config, kept_ms or 0):
        if is_windowed and deletes_rows:
            yield (
                f"{name}: {setting!r} is {value}, and the store keeps its rows for {kept_ms} ms:"
                " rows that brokers delete earlier are missing after a restore. Remove it; the"
                " owner of the partition deletes expired rows"
            )


def _of_policy(name: str, policy: str, *, is_windowed: bool) -> Iterator[str]:
    parts = {part.strip() for part in policy.split(",")}
    if not is_windowed and parts != {"compact"}:
        yield (
            f"{name}: {_POLICY!r} is {policy!r}, and brokers would delete rows by their age that"
            " the store still has, which are missing after a restore. Remove it: the policy is"
            " 'compact'. Rows that a ttl= or the application deletes leave the changelog by their"
            " tombstones"
        )
    elif is_windowed and ("delete" not in parts or parts - {"compact", "delete"}):
        yield (
            f"{name}: {_POLICY!r} is {policy!r}; a windowed store needs 'compact,delete' or"
            " 'delete': otherwise brokers do not allow the deletion of expired rows. Remove it"
        )


def _of_values(name: str, given: object, whose: str = "") -> Iterator[str]:
    yield from mapping(name + whose, given, "{'segment.bytes': '52428800'}")
    config: Mapping[object, object] = given if isinstance(given, Mapping) else {}
    for key, value in config.items():
        place = f"{name}[{key!r}]{whose}"
        if not isinstance(key, str):
            yield f"{place}: the name of a setting is text; got {shown(key)}"
        elif not isinstance(value, str):
            yield f"{place} must be text, as brokers have it; got {shown(value)}{_as_text(value)}"
        elif key in _NUMBERS and _number(value) is None:
            yield f"{place} must be a whole number as text, such as '86400000'; got {shown(value)}"
        elif key == _TIMESTAMPS and value != "CreateTime":
            yield (
                f"{place} must be 'CreateTime'; got {shown(value)}: brokers would replace event"
                " time by their own time, so restored rows and repartitioned records would have"
                " other timestamps. Remove it"
            )
        elif key not in _KNOWN:
            near = difflib.get_close_matches(key.strip().lower(), _KNOWN, n=1, cutoff=0.9)
            if near:
                yield f"{place} is not known. Did you mean {near[0]!r}?"


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return f". Write '{str(value).lower()}'"
    if isinstance(value, (int, float)):
        return f". Write '{value:g}'" if isinstance(value, float) else f". Write '{value}'"
    if isinstance(value, (list, tuple, set, frozenset)):
        return f". Write {','.join(map(str, value))!r}"
    return ""


def _number(value: object) -> int | None:
    try:
        return int(value) if isinstance(value, str) else None
    except ValueError:
        return None
