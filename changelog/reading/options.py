"""Options of ``format("logstate")``: parsed and checked in one place, on the driver.

The names are those of Spark's own ``statestore`` and ``kafka`` sources if these have the option.
All problems are reported at once, and an unused option is an error: a misspelled
``includeTombstone`` must not silently give a different table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from logstate.changelog.cuts.cut_value import CutValue, Offsets, parse_cut, parse_offsets
from logstate.changelog.cuts.named_cut import is_cut_name
from logstate.contracts.errors import ConfigError

LATEST: Final = "latest"
LATEST_COMMIT: Final = "latest-commit"
EARLIEST: Final = "earliest"

#: of logs that no manifest describes
STORE_KINDS = ("key_value", "window", "session", "versioned", "join_window")

# Option name in lower case (Spark compares so) to the name as documented.
_NAMES = {
    name.lower(): name
    for name in (
        "bootstrap", "application", "store", "topic", "cut", "partition", "includeTombstones",
        "includeExpired",
        "includeMeta", "times", "keyFormat", "valueFormat", "valueSerde",
        "keySchema", "valueSchema", "storeKind", "windowSizeMs", "pushKeyFilter",
        "stallSeconds",
        "readChangeFeed", "changeFeedFormat", "includePreimages", "startingOffsets",
        "maxOffsetsPerTrigger", "maxRecordsPerTrigger", "maxBytesPerTrigger",
        "failOnDataLoss", "schemaRegistry", "batchId", "keySerde",
    )
}  # fmt: skip

_OWNED_KAFKA_KEYS = frozenset(
    {
        "bootstrap.servers", "group.id", "isolation.level", "enable.auto.commit",
        "enable.auto.offset.store", "auto.offset.reset", "enable.partition.eof",
    }
)  # fmt: skip


@dataclass(frozen=True)
class SourceOptions:
    """The settings of a read. Field comments give the option's name if it differs."""

    bootstrap: str
    application: str | None = None
    store: str | None = None
    topic: str | None = None
    cut: str | CutValue = LATEST_COMMIT
    """One of the words above, a cut, or the name of one."""
    partition: int | None = None
    include_tombstones: bool = False
    include_expired: bool = False
    include_meta: bool = False
    are_times_integers: bool = False
    """times: "timestamp" (default) or "ms"."""
    key_format: str | None = None
    value_format: str | None = None
    value_serde: str | None = None
    key_schema: str | None = None
    value_schema: str | None = None
    store_kind: str | None = None
    window_size_ms: int | None = None
    push_key_filter: bool | None = None
    """pushKeyFilter: None takes what Spark hands down, if it does; True asks that it does."""
    stall_seconds: float = 60.0
    read_change_feed: bool = False
    has_row_changes: bool = False
    """changeFeedFormat: "log" (default): the records; "spark": their effects on rows."""
    include_preimages: bool = False
    starting_offsets: str | Offsets = EARLIEST
    max_offsets_per_trigger: int | None = None
    max_records_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    fail_on_data_loss: bool = True
    batch_id: str | None = None
    """Writes: a batch of this name is written once."""
    key_serde: str | None = None
    """Writes: keySerde, as valueSerde."""
    registry: Mapping[str, str] = field(default_factory=dict, repr=False)
    """schemaRegistry (as ``url``) and schemaRegistry.*; may hold secrets, so it is never shown."""
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Client configuration from ``kafka.*``; may hold secrets, so it is never shown."""

    @property
    def admits_commits(self) -> bool:
        """Whether a micro-batch is bounded by whole commits."""
        return (self.max_records_per_trigger, self.max_bytes_per_trigger) != (None, None)

    @property
    def cut_name(self) -> str | None:
        """The name of the cut, if it is given by one."""
        is_name = isinstance(self.cut, str) and self.cut not in (LATEST, LATEST_COMMIT)
        return str(self.cut) if is_name else None

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
    kafka = _options_with_prefix("kafka.", given)
    registry = _options_with_prefix("schemaregistry.", given)
    if "schemaregistry" in given:
        registry["url"] = given["schemaregistry"]
    passed_on = ("kafka.", "schemaregistry.")
    parser = _Parser({name: v for name, v in given.items() if not name.startswith(passed_on)})
    parsed = SourceOptions(
        bootstrap=parser.text("bootstrap") or kafka.pop("bootstrap.servers", ""),
        application=parser.text("application"),
        store=parser.text("store"),
        topic=parser.text("topic"),
        cut=parser.place("cut", LATEST_COMMIT, (LATEST, LATEST_COMMIT), _cut),
        partition=parser.integer("partition", 0),
        include_tombstones=parser.boolean("includeTombstones", False),
        include_expired=parser.boolean("includeExpired", False),
        include_meta=parser.boolean("includeMeta", False),
        are_times_integers=parser.choice("times", ("timestamp", "ms")) == "ms",
        key_format=parser.text("keyFormat"),
        value_format=parser.text("valueFormat"),
        value_serde=parser.text("valueSerde"),
        key_schema=parser.text("keySchema"),
        value_schema=parser.text("valueSchema"),
        store_kind=parser.choice("storeKind", STORE_KINDS) if "storekind" in given else None,
        window_size_ms=parser.integer("windowSizeMs", 1),
        push_key_filter=parser.boolean("pushKeyFilter", False)
        if "pushkeyfilter" in given
        else None,
        stall_seconds=float(parser.integer("stallSeconds", 1) or 60),
        read_change_feed=parser.boolean("readChangeFeed", False),
        has_row_changes=parser.choice("changeFeedFormat", ("log", "spark")) == "spark",
        include_preimages=parser.boolean("includePreimages", False),
        starting_offsets=parser.place(
            "startingOffsets", EARLIEST, (EARLIEST, LATEST), parse_offsets
        ),
        max_offsets_per_trigger=parser.integer("maxOffsetsPerTrigger", 1),
        max_records_per_trigger=parser.integer("maxRecordsPerTrigger", 1),
        max_bytes_per_trigger=parser.integer("maxBytesPerTrigger", 1),
        fail_on_data_loss=parser.boolean("failOnDataLoss", True),
        batch_id=parser.text("batchId"),
        key_serde=parser.text("keySerde"),
        registry=registry,
        kafka=kafka,
    )
    problems = parser.problems + _conflicts(parsed, is_cut_given="cut" in given)
    if problems:
        raise ConfigError(problems)
    return parsed


def _cut(text: str) -> str | CutValue:
    return text if is_cut_name(text) else parse_cut(text)


def _options_with_prefix(prefix: str, given: Mapping[str, str]) -> dict[str, str]:
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
    if options.cut_name is not None and (options.application is None or options.store is None):
        problems.append(
            f'cut {options.cut_name!r} is a name, which needs "application" and "store": a named '
            "cut is a copy of stores"
        )
    if options.cut_name is not None and options.read_change_feed:
        problems.append(
            f"cut {options.cut_name!r} is a name, and a change feed has none: a named cut is a "
            "copy of stores as tables; give the text of a cut"
        )
    problems += _of_feed(options)
    kinds = {"storeKind": options.store_kind, "windowSizeMs": options.window_size_ms}
    if options.application is not None:
        problems += [
            f'"{name}" is for logs that no manifest describes, and "application" has one: leave '
            "one of them out"
            for name, value in kinds.items()
            if value is not None
        ]
    owned = sorted(_OWNED_KAFKA_KEYS & options.kafka.keys())
    return problems + [f'"kafka.{key}" is set by the reader itself; leave it out' for key in owned]


def _of_feed(options: SourceOptions) -> list[str]:
    problems = []
    if options.include_preimages and not options.has_row_changes:
        problems.append('"includePreimages" needs changeFeedFormat "spark", which knows them')
    if options.max_offsets_per_trigger is not None:
        other = "maxRecordsPerTrigger or maxBytesPerTrigger"
        if options.has_row_changes:
            problems.append(f'"maxOffsetsPerTrigger" ends batches within commits: give {other}')
        if options.admits_commits:
            problems.append(f"maxOffsetsPerTrigger and {other} are given; give one kind of bound")
    return problems


_Place = TypeVar("_Place")


class _Parser:
    """Reads options from a mapping and collects their problems."""

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

    def place(
        self, name: str, default: str, words: tuple[str, ...], parse: Callable[[str], _Place]
    ) -> str | _Place:
        """A place in logs: one of the words, or what ``parse`` makes of it."""
        value = self._given.get(name.lower(), default)
        if value in words:
            return value
        try:
            return parse(value)
        except ValueError:
            self.problems.append(
                f'option "{name}" is {value!r}; it must be one of {words} or offsets as JSON, '
                'like {"app-store-changelog": {"0": 42}}'
            )
            return default
