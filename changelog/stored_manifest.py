"""The manifest of an application when it is read back from the cuts topic.

Any client with write permission can write a manifest to the cuts topic, and a record can be
damaged. So the record is decoded and checked here, once, before any code uses it: every required
key is present, every value has its type, numbers are in range, topic names are legal, and nesting
is bounded. Otherwise a RestoreError names the key.

:func:`topics_of_others` is the second check: which topics the manifest calls internal topics of the
application although the application cannot have created them. No command deletes or writes those.

Invariant: :func:`decode_manifest` accepts every manifest that :func:`check_manifest` let through.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import msgspec

from logstate.contracts.changelog_keys import WINDOWED
from logstate.contracts.errors import UNDECODABLE, ConfigError, RestoreError
from logstate.contracts.topic_names import (
    PARTITIONS_MAX,
    TOPIC_NAME_PATTERN,
    changelog_topic,
    cuts_topic,
    is_changelog,
    is_of_generation,
    is_repartition,
)

VERSION: Final = 1
NEWEST_VERSION: Final = 2
"""Of manifests where keys are hashed with their windows, which version 1 does not do."""

NESTING_MAX: Final = 200
"""Levels of lists and maps in a manifest: half of what Python code can walk by recursion."""

TopicName = Annotated[str, msgspec.Meta(pattern=TOPIC_NAME_PATTERN)]
Count = Annotated[int, msgspec.Meta(ge=1, le=PARTITIONS_MAX)]
Number = Annotated[int, msgspec.Meta(ge=0, le=PARTITIONS_MAX)]
Milliseconds = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Description(msgspec.Struct):
    """A serde, as far as every reader depends on it."""

    format: str
    inner: Any = None


class _Forgotten(msgspec.Struct):
    kind: str
    changelog_topic: TopicName | None
    changelog_topic_id: str | None = None
    logged_as: str = ""
    source_topics: list[TopicName] = []
    moved_away: bool = False


class _Entry(msgspec.Struct, kw_only=True):
    """All optional keys of a store; the serdes check the content of a description."""

    changelog_topic: TopicName | None = None
    kind: str = ""
    partitions: Count = 1
    sub_topology: Number = 0
    source_topics: list[TopicName] = []
    key: _Description | None = None
    value: _Description | None = None
    changelog_topic_id: str | None = None
    logged_as: str = ""
    formerly: list[str] = []
    fed_by: list[list[TopicName]] = []
    placed_by: str | None = None
    hashed_windows: Number = 0
    row_format: Number = 1
    window_size_ms: Milliseconds | None = None
    advance_ms: Milliseconds | None = None
    gap_ms: Milliseconds | None = None
    retention_ms: Milliseconds | None = None
    history_ms: Milliseconds | None = None
    segment_interval_ms: Milliseconds | None = None
    grace_ms: Milliseconds | None = None
    capacity: Milliseconds | None = None
    ttl_ms: Milliseconds | None = None
    ttl_by: str = "stream_time"
    indexes: dict[str, _Description] | None = None
    retain_duplicates: bool = False
    with_headers: bool = False
    logs_headers: bool = False
    keep_at_retention: bool = False
    in_memory: bool = False
    is_logged: bool = True
    layout: Number = 1


class _Store(_Entry, kw_only=True):
    """The keys that every manifest has for a store."""

    changelog_topic: TopicName | None
    kind: str
    partitions: Count
    sub_topology: Number
    source_topics: list[TopicName]
    key: _Description | None
    value: _Description | None


class _Topic(msgspec.Struct):
    partitions: Count
    usual_name: TopicName = ""
    hashes_windows: bool = False
    key: _Description | None = None
    value: _Description | None = None


class _Formats(msgspec.Struct):
    key: _Description | None = None
    value: _Description | None = None


class _Manifest(msgspec.Struct):
    stores: dict[str, _Store]
    application_id: str
    version: Annotated[int, msgspec.Meta(ge=1)] = 1
    describe: str = ""
    topics: dict[TopicName, _Topic] = {}
    inputs: list[TopicName] = []
    formats: dict[TopicName, _Formats] = {}
    forgotten: dict[str, _Forgotten] = {}
    reset_since: str = ""
    resharding_since: str = ""
    resharding_topics: list[TopicName] = []


class _Changelog(msgspec.Struct):
    changelog_topic: TopicName | None = None


class _Changelogs(msgspec.Struct):
    stores: dict[str, _Changelog] = {}


def decode_manifest(value: bytes, application_id: str = "") -> dict[str, Any]:
    """A manifest as plain data, with every key that this version reads checked.

    Raises RestoreError for a record that is not a manifest, and for the manifest of another
    application than ``application_id``, where that is given.

    >>> decode_manifest(b'{"application_id": "shop", "stores": {}}')
    {'application_id': 'shop', 'stores': {}}
    >>> decode_manifest(b'{"application_id": "shop", "stores": []}', "shop")
    Traceback (most recent call last):
    ...
    logstate.contracts.errors.RestoreError: the manifest in 'shop-cuts' is damaged: Expected \
`object`, got `array` - at `$.stores`. Another program wrote to that topic, or the record was \
changed on its way. Write the last good value of the key 'manifest' there again. If the \
application starts next with the topology that ran last, a null value will do: that start writes \
a manifest, and compares nothing
    """
    try:
        found = msgspec.json.decode(value)
    except UNDECODABLE as error:
        raise _damaged(_topic_text(application_id), error) from error
    return checked_manifest(found, application_id)


def checked_manifest(found: Any, application_id: str = "") -> dict[str, Any]:
    """Check plain data that was decoded elsewhere; raises as :func:`decode_manifest`."""
    where = _topic_text(application_id)
    try:
        _check(found)
    except UNDECODABLE as error:
        if _is_newer(found):
            raise RestoreError(
                f"the manifest in {where} has version {found['version']}, and this logstate reads"
                f" version {NEWEST_VERSION}: a newer logstate wrote it. Use that version, or a"
                " newer one"
            ) from error
        raise _damaged(where, error) from error
    named = found["application_id"]
    if application_id and named != application_id:
        raise RestoreError(
            f"the manifest in {where} belongs to application {named!r:.100}: a record of another"
            " cuts topic was copied there, or another program wrote it. Write the last good value"
            f" of the key 'manifest' of application {application_id!r} there again"
        )
    return found  # type: ignore[no-any-return]


def changelog_named(value: bytes, store: str, application_id: str) -> str | None:
    """The changelog of one store, and nothing else of a manifest; None where it names none.

    Raises RestoreError for a damaged manifest, and for a topic that is not the application's own.

    >>> changelog_named(b'{"stores": {"a": {"changelog_topic": "shop-a-changelog"}}}', "a", "shop")
    'shop-a-changelog'
    """
    try:
        found = msgspec.json.decode(value, type=_Changelogs).stores.get(store)
    except UNDECODABLE as error:
        raise _damaged(_topic_text(application_id), error) from error
    topic = None if found is None else found.changelog_topic
    if topic is not None and not is_own_topic(application_id, topic):
        raise RestoreError(
            f"the manifest in {_topic_text(application_id)} names {topic!r} as the changelog of"
            " store"
            f" {store!r}, and application {application_id!r} does not create topics of such a name."
            " Another program wrote the manifest, or it was changed"
        )
    return topic


def _topic_text(application_id: str) -> str:
    return repr(cuts_topic(application_id)) if application_id else "the cuts topic"


def _damaged(where: str, error: Exception) -> RestoreError:
    return RestoreError(
        f"the manifest in {where} is damaged: {text_of_damage(error)}. Another program wrote to"
        " that topic, or the record was changed on its way. Write the last good value of the key"
        " 'manifest' there again. If the application starts next with the topology that ran"
        " last, a null value will do: that start writes a manifest, and compares nothing"
    )


def check_manifest(content: Mapping[str, Any]) -> None:
    """Raises ConfigError for a manifest that no start would read back; it must not be written."""
    try:
        _check(content)
    except UNDECODABLE as error:
        raise ConfigError(
            f"application {content.get('application_id')!r}: what describes its stores cannot be"
            f" stored: {text_of_damage(error)}. Is a type of a store nested very deeply? Flatten it"
        ) from error


def topics_of_others(application_id: str, stored: Mapping[str, Any]) -> dict[str, str]:
    """Topics that a manifest calls internal though the application cannot have created them.

    Each with what the manifest says of it. The application's own topics begin with its id and are
    named as a changelog, a repartition topic, or a topic of a move to other partitions.

    >>> topics_of_others("shop", {"stores": {}, "topics": {"payments": {"partitions": 2}}})
    {'payments': 'a repartition topic'}
    """
    return {
        topic: role
        for topic, role in _called_internal(application_id, stored)
        if not is_own_topic(application_id, topic)
    }


def is_own_topic(application_id: str, topic: str) -> bool:
    """Whether a topic is named like one that keeps or moves state of the application.

    >>> is_own_topic("shop", "shop-spend-changelog"), is_own_topic("shop", "payments")
    (True, False)
    """
    return (
        is_changelog(application_id, topic)
        or is_repartition(application_id, topic)
        or is_of_generation(application_id, topic)
    )


def check_topics_are_own(application_id: str, stored: Mapping[str, Any]) -> None:
    """Raises RestoreError where the manifest names topics of others as internal ones."""
    others = topics_of_others(application_id, stored)
    if others:
        named = ", ".join(f"{topic!r} as {role}" for topic, role in sorted(others.items()))
        raise RestoreError(
            f"the manifest in {cuts_topic(application_id)!r} names {named}, and application"
            f" {application_id!r} cannot have created such a topic: its own begin with"
            f" '{application_id}-' and end as changelogs and repartition topics do. Another program"
            " wrote the manifest, or it was changed. Write the last good value of the key"
            f" 'manifest' there again, or give all state up with `logstate reset"
            f" --application-id {application_id}`, which deletes no topic of others. Nothing"
            " was read or changed"
        )


def _called_internal(application_id: str, stored: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, entry in stored.get("topics", {}).items():
        yield name, "a repartition topic"
        yield entry.get("usual_name") or name, "a repartition topic"
    for name in stored.get("resharding_topics", ()):
        yield name, "a topic of a move to other partitions"
    for name, entry in stored["stores"].items():
        topic = entry["changelog_topic"]
        own = changelog_topic(application_id, entry.get("logged_as") or name)
        if topic is not None and topic != own and topic not in entry["source_topics"]:
            yield topic, f"the changelog of store {name!r:.100}"
    for entry in stored.get("forgotten", {}).values():
        if entry.get("moved_away") and entry["changelog_topic"] is not None:
            yield entry["changelog_topic"], "a topic whose rows were moved away"


def _is_newer(found: object) -> bool:
    version = found.get("version") if isinstance(found, dict) else None
    return isinstance(version, int) and version > NEWEST_VERSION


def _check(found: object) -> None:
    """Raises ValueError for data that is not a manifest."""
    check_nesting(found, NESTING_MAX)
    manifest = msgspec.convert(found, _Manifest)
    for name, store in manifest.stores.items():
        _check_key(name, store.key)


def check_entry(name: str, entry: Mapping[str, Any]) -> None:
    """Raises ValueError where a key of the entry of a store has a wrong value."""
    check_nesting(entry, NESTING_MAX)
    _check_key(name, msgspec.convert(entry, _Entry).key)


def _check_key(name: str, key: _Description | None) -> None:
    if key is not None and key.format in WINDOWED:
        try:
            msgspec.convert(key.inner, _Description)
        except ValueError as error:
            raise ValueError(f"{error}, in the `inner` key of store {name!r:.100}") from error


def check_nesting(found: object, most: int) -> None:
    """Raises ValueError where lists and maps are nested deeper than ``most``."""
    level: list[object] = [found]
    depth = 0
    while level:
        depth += 1
        if depth > most:
            raise ValueError(f"lists and maps are nested deeper than {most} levels")
        inside: list[object] = []
        for one in level:
            if isinstance(one, dict):
                inside += one.values()
            elif isinstance(one, list | tuple):
                inside += one
        level = [one for one in inside if isinstance(one, dict | list | tuple)]


def text_of_damage(error: BaseException) -> str:
    """Return the text for a record about which one of ``UNDECODABLE`` was raised."""
    return "it is nested too deeply" if isinstance(error, RecursionError) else f"{error!s:.300}"
