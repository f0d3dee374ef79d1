"""Records for every topic that a topology reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, NoReturn

from logstate.contracts.errors import ConfigError
from logstate.contracts.formats import SCALARS
from logstate.contracts.records import ProducedRecord
from logstate.contracts.serde import Serde
from logstate.generated.draw import Draw
from logstate.generated.objects import maker_of
from logstate.topology.graph.nodes import SourceNode
from logstate.topology.graph.sub_topology import SubTopology
from logstate.topology.operators.tables.table_source import TableSourceNode
from logstate.topology.plan.plan import Topology

#: event time of the first record: 2026-01-01T00:00Z
BEGIN_MS = 1_767_225_600_000
#: values are drawn apart from keys, so a topic with equal types for both does not repeat itself
_VALUES = 1_000_000_000
#: keys of these types are counted, so their number is exact
_KEYS: Mapping[type[Any], Callable[[Draw], Any]] = {
    str: lambda draw: f"key-{draw.number}",
    int: lambda draw: draw.number,
}


class GeneratedInput(NamedTuple):
    """A topic that a topology reads."""

    topic: str
    key: Serde[Any]
    value: Serde[Any]
    #: it is read as a table: one row for each key, before all other records
    is_table: bool


def topics_read(topology: Topology) -> list[GeneratedInput]:
    """Return the external topics, tables first: so joins find their rows."""
    subs = (*topology.global_sub_topologies, *topology.sub_topologies)
    found = {one.topic: one for sub in subs for source in sub.sources for one in _read(sub, source)}
    return sorted(found.values(), key=lambda one: not one.is_table)


def _read(sub: SubTopology, source: SourceNode) -> Iterator[GeneratedInput]:
    nodes = {node.name: node for node in sub.nodes}
    below = [nodes[name] for name in sub.children.get(source.name, ())]
    is_table = sub.is_global or any(isinstance(node, TableSourceNode) for node in below)
    for ref in source.topics:
        if not ref.is_internal and not ref.is_pattern:
            yield GeneratedInput(ref.name, source.key, source.value, is_table)


def generated_records(
    read: Sequence[GeneratedInput], count: int, *, keys: int, seed: int, per_second: int
) -> Iterator[ProducedRecord]:
    """Yield one row per key for each table, and then records, topic by topic in turn.

    Args:
        read: the topics.
        count: number of records over all topics.
        keys: number of different keys of a topic.
        seed: equal seeds draw equal records.
        per_second: records in a second of event time.

    Raises ConfigError if no topic is read, and for a type for which nothing can be generated.
    """
    if not read:
        raise ConfigError("the topology reads no external topic with a known name")
    makers = {
        one.topic: (_generator_of(one, is_key=True), _generator_of(one, is_key=False))
        for one in read
    }
    tables = [one for one in read if one.is_table]
    streams = [one for one in read if not one.is_table] or tables
    rows = ((one.topic, number) for one in tables for number in range(keys))
    events = ((streams[n % len(streams)].topic, None) for n in range(count))
    numbered = enumerate(islice(_chained(rows, events), count))
    chooser = Draw(seed, 0).random
    for number, (topic, given) in numbered:
        at_ms = BEGIN_MS + number * 1_000 // per_second
        key, value = makers[topic]
        which = chooser.randrange(keys) if given is None else given
        yield ProducedRecord(
            topic,
            None,
            key(Draw(seed, which, BEGIN_MS)),
            value(Draw(seed, _VALUES + number, at_ms)),
            at_ms,
        )


def _chained(*several: Iterable[tuple[str, int | None]]) -> Iterator[tuple[str, int | None]]:
    for one in several:
        yield from one


def given_records(
    read: Sequence[GeneratedInput], inputs: Iterable[Sequence[Any]], count: int, *, per_second: int
) -> Iterator[ProducedRecord]:
    """Encode the user's records: ``(topic, key, value)`` or ``(topic, key, value, time in ms)``.

    Raises ConfigError for a topic that is not read.
    """
    by_topic = {one.topic: one for one in read}
    for number, (topic, key, value, *time) in enumerate(islice(inputs, count)):
        one = by_topic.get(topic) or _not_read(number, topic, by_topic)
        yield ProducedRecord(
            topic,
            None,
            None if key is None else one.key.serializer(topic, True)(key),
            None if value is None else one.value.serializer(topic, False)(value),
            int(time[0]) if time else BEGIN_MS + number * 1_000 // per_second,
        )


def _not_read(number: int, topic: str, read: Iterable[str]) -> NoReturn:
    raise ConfigError(
        f"input number {number} is for topic {topic!r}, which the topology does not read; it reads"
        f" {', '.join(map(repr, read))}"
    )


def _generator_of(one: GeneratedInput, *, is_key: bool) -> Callable[[Draw], bytes]:
    serde, what = (one.key, "key") if is_key else (one.value, "value")
    try:
        known = SCALARS.get(str(serde.describe()["format"])) if is_key else None
        make = (known and _KEYS.get(known.type_)) or maker_of(serde)
    except ConfigError as error:
        raise _nothing_drawn(one.topic, what, error) from error
    write = serde.serializer(one.topic, is_key)

    def draw_one(draw: Draw) -> bytes:
        try:
            return write(make(draw))
        except Exception as error:
            raise _nothing_drawn(one.topic, what, error) from error

    return draw_one


def _nothing_drawn(topic: str, what: str, error: Exception) -> ConfigError:
    why = str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
    return ConfigError(
        f"no {what} can be generated for topic {topic!r}: {why.rstrip('.')}. Give your own records:"
        " --inputs MODULE:FUNCTION, a function that yields (topic, key, value)"
    )
