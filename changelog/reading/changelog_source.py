"""Which changelog is read: from the options and an application's manifest to a topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logstate.changelog.cuts.logs import (
    ChangelogSource,
    changelog_source,
    check_topic_id,
    log_reader,
    read_manifest,
)
from logstate.changelog.cuts.named_cuts import check_copy, find_cut
from logstate.changelog.reading.given_formats import given_entry, given_sides
from logstate.changelog.reading.options import SourceOptions
from logstate.contracts.errors import ConfigError

__all__ = ["ChangelogSource", "check_topic_id", "find_source", "log_reader"]


def find_source(options: SourceOptions) -> ChangelogSource:
    """The changelog that the options name, or its copy that a named cut keeps.

    Raises ConfigError or TopicError if there is none, RestoreError if the copy is not whole.
    """
    if options.cut_name is not None:
        return _kept_source(options, options.cut_name)
    entry = {**_entry(options), **given_sides(options)}
    topic = entry.get("changelog_topic") or options.topic
    if topic is None:
        raise ConfigError(
            f"store {options.store!r} of {options.application!r} has no changelog topic, so there "
            "is nothing to read; turn its logging on, or query the application"
        )
    return changelog_source(
        topic, log_reader().log_topics(options.client_config, [topic])[topic], entry
    )


def _entry(options: SourceOptions) -> dict[str, Any]:
    if options.application is None:
        assert options.topic is not None
        return given_entry(options)
    manifest, _ = read_manifest(options.client_config, options.application)
    return _find_entry(options, manifest["stores"])


def _kept_source(options: SourceOptions, name: str) -> ChangelogSource:
    assert options.application is not None
    assert options.store is not None
    named = find_cut(options.client_config, options.application, name)
    kept = check_copy(options.client_config, named, options.store)
    return ChangelogSource(
        kept.topic,
        kept.topic_id,
        len(kept.ends),
        {**kept.entry, **given_sides(options)},
        named.cut_of_copy(options.store),
    )


def _find_entry(options: SourceOptions, stores: Mapping[str, Any]) -> dict[str, Any]:
    if options.topic is not None:
        for name, entry in stores.items():
            if entry.get("changelog_topic") == options.topic:
                return {**entry, "name": name}
        raise ConfigError(
            f"{options.topic!r} is not a changelog of {options.application!r}; its changelogs are "
            f"{sorted(entry['changelog_topic'] or '-' for entry in stores.values())}; leave "
            '"application" out to read any topic without a manifest'
        )
    if options.store is None or options.store not in stores:
        raise ConfigError(
            f"{options.application!r} has no store {options.store!r}; it has {sorted(stores)}"
        )
    return {**stores[options.store], "name": options.store}
