"""Options of ``format("logstate")``: parsed and checked in one place, on the driver.

The words are those of Spark's own ``statestore`` and ``kafka`` sources where these have one.
Every problem is reported at once, and an option that nobody reads is an error: a misspelt
``includeTombstone`` must not silently give a different table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from logstate.contracts.errors import ConfigError

LATEST: Final = "latest"
LATEST_COMMIT: Final = "latest-commit"
EARLIEST: Final = "earliest"

# Option name in lower case (Spark compares so) to the name as documented.
_NAMES = {
    name.lower(): name
    for name in (
        "bootstrap", "application", "store", "topic", "cut", "partition", "includeTombstones",
        "includeMeta", "times", "keyFormat", "valueFormat", "pushKeyFilter", "stallSeconds",
        "readChangeFeed", "startingOffsets", "maxOffsetsPerTrigger",
        "failOnDataLoss", "schemaRegistry",
    )
}  # fmt: skip

_OWNED_KAFKA_KEYS = frozenset(
    {
        "bootstrap.servers", "group.id", "isolation.level", "enable.auto.commit",
        "enable.auto.offset.store", "auto.offset.reset", "enable.partition.eof",
    }
)  # fmt: skip

Offsets = Mapping[str, Mapping[int, int]]
"""Topic to partition to next offset."""


@dataclass(frozen=True)
class SourceOptions:
    """What a read was asked for. Field comments give the option's name where it differs."""

    bootstrap: str
    application: str | None = None
    store: str | None = None
    topic: str | None = None
    cut: str | Offsets = LATEST_COMMIT
    partition: int | None = None
    include_tombstones: bool = False
    include_meta: bool = False
    are_times_integers: bool = False
    """times: "timestamp" (default) or "ms"."""
    key_format: str | None = None
    value_format: str | None = None
    push_key_filter: bool = False
    stall_seconds: float = 60.0
    read_change_feed: bool = False
    starting_offsets: str | Offsets = EARLIEST
    max_offsets_per_trigger: int | None = None
    fail_on_data_loss: bool = True
    registry: Mapping[str, str] = field(default_factory=dict, repr=False)
    """schemaRegistry (as ``url``) and schemaRegistry.*; may hold secrets, so it is never shown."""
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Client configuration from ``kafka.*``; may hold secrets, so it is never shown."""

    @property
    def client_config(self) -> dict[str, Any]:
        """Configuration for the Kafka client."""
        return {**self.kafka, "bootstrap.servers": self.bootstrap}


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Check the options of one read.

    Raises ConfigError with every problem found.

    >>> parse_options({"bootstrap": "localhost:9092", "application": "app", "store": "s"}).cut
    'latest-commit'
    """
    given = {name.lower(): value for name, value in options.items()}
    kafka = _below("kafka.", given)
    registry = _below("schemaregistry.", given)
    if "schemaregistry" in given:
        registry["url"] = given["schemaregistry"]
    passed_on = ("kafka.", "schemaregistry.")
    parser = _Parser({name: v for name, v in given.items() if not name.startswith(passed_on)})
    parsed = SourceOptions(
        bootstrap=parser.text("bootstrap") or kafka.pop("bootstrap.servers", ""),
        application=parser.text("application"),
        store=parser.text("store"),
        topic=parser.text("topic"),
        cut=parser.offsets("cut", LATEST_COMMIT, (LATEST, LATEST_COMMIT)),
        partition=parser.integer("partition", 0),
        include_tombstones=parser.boolean("includeTombstones", False),
        include_meta=parser.boolean("includeMeta", False),
        are_times_integers=parser.choice("times", ("timestamp", "ms")) == "ms",
        key_format=parser.text("keyFormat"),
        value_format=parser.text("valueFormat"),
        push_key_filter=parser.boolean("pushKeyFilter", False),
        stall_seconds=float(parser.integer("stallSeconds", 1) or 60),
        read_change_feed=parser.boolean("readChangeFeed", False),
        starting_offsets=parser.offsets("startingOffsets", EARLIEST, (EARLIEST, LATEST)),
        max_offsets_per_trigger=parser.integer("maxOffsetsPerTrigger", 1),
        fail_on_data_loss=parser.boolean("failOnDataLoss", True),
        registry=registry,
        kafka=kafka,
    )
    problems = parser.problems + _conflicts(parsed, is_cut_given="cut" in given)
    if problems:
        raise ConfigError(problems)
    return parsed


def _below(prefix: str, given: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)
    }


def _conflicts(options: SourceOptions, *, is_cut_given: bool) -> list[str]:
    problems = []
    if not options.bootstrap:
        problems.append('option "bootstrap" is missing; give the brokers, as "host:9092"')
    if options.store is None and options.topic is None:
        problems.append('neither "store" nor "topic" is given; name the store to read')
    if options.store is not None and options.topic is not None:
        problems.append('both "store" and "topic" are given; a store knows its topic: give one')
    if options.store is not None and options.application is None:
        problems.append('"store" needs "application", the application id whose store it is')
    if options.application is None and is_cut_given and options.cut == LATEST_COMMIT:
        problems.append('cut "latest-commit" needs "application", whose commits count')
    owned = sorted(_OWNED_KAFKA_KEYS & options.kafka.keys())
    return problems + [f'"kafka.{key}" is set by the reader itself; leave it out' for key in owned]


class _Parser:
    """Takes options out of a mapping and collects what is wrong with them."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given
        self.problems = [
            f'unknown option "{name}"; known are {", ".join(_NAMES.values())}, schemaRegistry.* '
            "and kafka.*"
            for name in given
            if name not in _NAMES
        ]

    def text(self, name: str) -> str | None:
        value = self._given.get(name.lower())
        if value is not None and not value.strip():
            self.problems.append(f'option "{name}" is empty')
            return None
        return value

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        value = self._given.get(name.lower(), choices[0])
        if value not in choices:
            self.problems.append(f'option "{name}" is {value!r}; it must be one of {choices}')
        return value

    def boolean(self, name: str, default: bool) -> bool:
        value = self._given.get(name.lower(), str(default)).lower()
        if value not in ("true", "false"):
            self.problems.append(f'option "{name}" is {value!r}; it must be true or false')
        return value == "true"

    def integer(self, name: str, least: int) -> int | None:
        value = self._given.get(name.lower())
        if value is None:
            return None
        if not value.isdecimal() or int(value) < least:
            self.problems.append(f'option "{name}" is {value!r}; it must be a number >= {least}')
            return None
        return int(value)

    def offsets(self, name: str, default: str, words: tuple[str, ...]) -> str | Offsets:
        value = self._given.get(name.lower(), default)
        if value in words:
            return value
        try:
            return parse_offsets(value)
        except (ValueError, TypeError, AttributeError):
            self.problems.append(
                f'option "{name}" is {value!r}; it must be one of {words} or offsets as JSON, '
                'like {"app-store-changelog": {"0": 42}}'
            )
            return default


def parse_offsets(text: str) -> Offsets:
    """``{"topic": {"0": 42}}`` as a mapping with integer partitions; raises ValueError."""
    parsed = json.loads(text)
    return {
        topic: {int(partition): _offset(offset) for partition, offset in partitions.items()}
        for topic, partitions in parsed.items()
    }


def _offset(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"not an offset: {value!r}")
    return value
