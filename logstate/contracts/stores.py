"""Stores: their specification in the plan, their rows, and the arguments of their reads.

The topology declares a :class:`StoreSpec`; the runtime creates a store for it over a backend. There
is no other connection: operators get a store from their task by name.

Ordering and isolation, for every store: scans run in the order of the SERIALIZED keys (unsigned
bytes), an iterator sees the state at the time it was opened, so "iterate and delete" is safe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import (
    RegistryError,
    SerdeError,
    StoreArgumentError,
    StoreMethodError,
    TopologyError,
)
from logstate.contracts.formats import SCALARS
from logstate.contracts.indexes import IndexSpec, check_indexed, index_named
from logstate.contracts.internal_topic_config import problems_of_changelog
from logstate.contracts.record_parts import shown
from logstate.contracts.records import Headers
from logstate.contracts.serde import Serde

K = TypeVar("K")
V = TypeVar("V")

#: the clocks of a TTL
TtlClock: TypeAlias = Literal["stream_time", "wall_clock"]

#: argument of ``put_all``: pairs, or a mapping; a value of None deletes
Entries: TypeAlias = Mapping[K, "V | None"] | Iterable[tuple[K, "V | None"]]


def _unchanged(element: Any) -> Any:
    return element


@dataclass(frozen=True)
class StoreSpec:
    """The specification of a store. Names become parts of topic and directory names."""

    name: str
    kind: str  # the name of a `changelog.stores.store_kind.StoreKind`
    key: Serde[Any]
    value: Serde[Any]
    in_memory: bool = False
    is_logged: bool = True
    window_size_ms: int | None = None  # window stores: end = start + size, None if sizes differ
    window_end: Callable[[int], int] | None = None  # then: start -> end
    advance_ms: int | None = None  # of aligned windows, 0 of sliding ones; otherwise not known
    gap_ms: int | None = None  # of sessions, if an aggregation merges them
    retention_ms: int | None = None  # window and session stores
    segment_interval_ms: int | None = None  # default: max(retention / 2, 60 s)
    retain_duplicates: bool = False  # window stores of stream joins: every put is a row
    history_ms: int | None = None  # versioned stores
    grace_ms: int | None = None  # buffers
    #: lists, maps, sets: what the rows of a key differ by (position, map key, or the value)
    element: Serde[Any] | None = None
    capacity: int | None = None  # the most keys of an LRU store, the most elements of a key
    ttl_ms: int | None = None  # key-value stores: a row expires so long after its time
    #: with a TTL: the clock by which rows expire; by the wall clock, which also is their time
    ttl_by: TtlClock = "stream_time"
    expired: str | None = None  # with a TTL: the name of the stream of its rows that expire
    renews_on_read: bool = False  # with a TTL: a get gives the row the time of its record
    indexes: tuple[IndexSpec, ...] = ()  # key-value stores: rows are found by parts of values
    with_headers: bool = False  # rows keep record headers (KIP-1271)
    logs_headers: bool = False  # stores of joins: logged with record headers, rows without
    keep_at_retention: bool = False  # for results on window close, read at T - retention too
    source_topic: str | None = None  # the source topic is the changelog (topology.optimization)
    #: of that source: (key, value, record timestamp, partition time) -> event time
    source_extractor: Callable[[Any, Any, int, int], int] | None = None
    #: that topic's key and value serde, which need not be the store's
    source_serdes: tuple[Serde[Any], Serde[Any]] | None = None
    #: rows have the headers of that topic's records, if any; those of a table never do
    keeps_source_headers: bool = True
    changelog_config: Mapping[str, str] = field(default_factory=dict)
    declared_at: str | None = None
    #: an aggregator that returns None deletes the row
    deletes: bool = False

    def __post_init__(self) -> None:
        if not self.changelog_config and isinstance(self.changelog_config, Mapping):
            return
        problems = problems_of_changelog(
            self.changelog_config,
            store=self.name,
            is_windowed=self.expires,
            kept_ms=self.retention_ms,
        )
        found = "; ".join(problems)
        if found:
            raise TopologyError(found, declared_at=self.declared_at)

    @property
    def clock_name(self) -> str:
        """The name of its clock in a cut. A TTL by the other clock has another one."""
        return f"{'wall_clock' if self.ttl_by == 'wall_clock' else 'store'}:{self.name}"

    @cached_property  # generating the schema of a type is slow, and every start of a task needs it
    def key_format(self) -> Mapping[str, Any]:
        """The format of its keys: the description of their serde."""
        return self.key.describe()

    @cached_property
    def value_format(self) -> Mapping[str, Any]:
        """The format of its values."""
        return self.value.describe()

    @cached_property
    def element_format(self) -> Mapping[str, Any] | None:
        """The format of its elements, if a key has several."""
        return None if self.element is None else self.element.describe()

    def bound_element(self, topic: str) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        """Return the functions that encode and decode its elements, where a key has several.

        In a schema registry they have a subject of their own. Without elements they change nothing.
        """
        if self.element is None:
            return _unchanged, _unchanged
        topic = f"{topic}-element"
        return self.element.serializer(topic, True), self.element.deserializer(topic, True)

    @property
    def is_only_local(self) -> bool:
        """Whether its rows are on the local disk only."""
        return not self.is_logged and not self.in_memory

    @property
    def is_versioned(self) -> bool:
        """Whether it keeps the versions of each key."""
        return self.history_ms is not None

    @property
    def expires(self) -> bool:
        """Whether its rows expire, a retention after their window or session."""
        return self.retention_ms is not None


#: A row of a timestamped store as a plain tuple, in the order of :class:`ValueAndTimestamp`, which
#: operators use because creating a named tuple takes five times as long.
StoredRow: TypeAlias = "tuple[Any, int, Headers]"


class ValueAndTimestamp(NamedTuple, Generic[V]):
    """A row of a timestamped store: of a table, or of an aggregation without windows.

    ``timestamp`` is the event time in ms of the newest record of the row, ``headers`` are those
    that it was written with, if the store keeps them.

    >>> from logstate import StreamsBuilder, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> _ = builder.table("stock", value=int, store="stock")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe("stock", "tea", 5, timestamp=1_000)
    ...     driver.store("stock").get("tea")
    ValueAndTimestamp(value=5, timestamp=1000, headers=None)
    """

    value: V
    timestamp: int
    headers: Headers = None


class VersionedRecord(NamedTuple, Generic[V]):
    """A version: valid from ``valid_from`` (inclusive) to ``valid_to`` (exclusive, None = open).

    Times are event times in ms. ``get(key, as_of)`` and ``delete`` of a store in a processor leave
    ``valid_to`` None for versions that ended, too, as in Kafka Streams; ``versions(key)`` sets it.
    Queries, and ``get`` of a store of the test driver, always set it.

    >>> from datetime import timedelta
    >>> from logstate import Materialized, StreamsBuilder, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> prices = Materialized("prices", history=timedelta(hours=1))
    >>> _ = builder.table("prices", value=int, store=prices)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("prices", [("tea", 100, 1_000), ("tea", 130, 5_000)])
    ...     driver.store("prices").get("tea", 3_000)
    VersionedRecord(value=100, valid_from=1000, valid_to=5000)
    """

    value: V
    valid_from: int
    valid_to: int | None = None


def pairs_of(entries: Entries[K, V], store: str) -> Iterator[tuple[K, V | None]]:
    """Yield the pairs that ``put_all`` of the store received. Raise TypeError for other items.

    >>> list(pairs_of({"ada": 1}, "counts"))
    [('ada', 1)]
    >>> list(pairs_of(["no"], "last"))
    Traceback (most recent call last):
        ...
    TypeError: put_all() of store 'last' takes pairs of a key and a value, or a mapping; found 'no'
    """
    pairs: Iterable[Any] = entries.items() if isinstance(entries, Mapping) else entries
    for pair in pairs:
        # A text of two letters would also unpack into a key and a value.
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(
                f"put_all() of store {store!r} takes pairs of a key and a value, or a mapping;"
                f" found {shown(pair)}"
            )
        yield pair[0], pair[1]


def no_such_read(spec: StoreSpec, store: object, name: str) -> StoreMethodError:
    """Return the error for a read that a store does not have."""
    hidden = {"headers_of"} if spec.indexes else {"headers_of", "by", "by_range"}
    has = ", ".join(read for read in ARGUMENTS if read not in hidden and hasattr(store, read))
    return StoreMethodError(
        f"store {spec.name!r} is a {spec.kind} store and has no {name}(); it has: {has}"
    )


# ------------------------------------------------------------------ arguments of reads

#: formats of keys for which a prefix of the key is a prefix of its bytes
_PREFIXES: Final = frozenset({"string", "bytes"})
_BOUNDS: Final = {"lower": "bound", "upper": "bound"}
_SPAN: Final = {"from_ms": "time", "to_ms": "time", "reverse": "flag"}
_OVERLAP: Final = {"earliest_end_ms": "time", "latest_start_ms": "time", "reverse": "flag"}
#: read -> names of its arguments in order, with the kind of each
ARGUMENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "get": {"key": "key", "as_of": "time or none"},
    "fetch": {"key": "key", "start_ms": "time", "reverse": "flag"},
    "fetch_range": {"key": "key", **_SPAN},
    "fetch_session": {"key": "key", "start_ms": "time", "end_ms": "time"},
    "headers_of": {"key": "key", "start_ms": "time", "end_ms": "time"},
    "find_sessions": {"key": "key", **_OVERLAP},
    "versions": {"key": "key", "from_ms": "time or none", "to_ms": "time or none"},
    "range": _BOUNDS,
    "reverse_range": _BOUNDS,
    "prefix_scan": {"prefix": "prefix"},
    "by": {"index": "index", "value": "indexed"},
    "by_range": {
        "index": "index",
        "lower": "indexed bound",
        "upper": "indexed bound",
        "reverse": "flag",
    },
    "all": {},
    "reverse_all": {},
    "approximate_num_entries": {},
    "items": {"key": "key", "lower": "element bound", "upper": "element bound", "reverse": "flag"},
    "values": {"key": "key", "lower": "element bound", "upper": "element bound", "reverse": "flag"},
    "contains": {"key": "key", "value": "element"},
    "size": {"key": "key"},
    "fetch_all": _SPAN,
    "fetch_key_range": {**_BOUNDS, **_SPAN},
    "find_sessions_of_key_range": {**_BOUNDS, **_OVERLAP},
}
#: of ``get``, where a key has several elements
_GET_ELEMENT: Final = {"key": "key", "element": "element"}


def check_arguments(
    spec: StoreSpec,
    encode_key: Callable[[Any], bytes],
    read: str,
    arguments: Sequence[Any],
    options: Mapping[str, Any] = {},
) -> None:
    """Raise StoreArgumentError for the first argument that the read cannot take, and name it.

    Otherwise a key of another type, or a time that is a datetime, would raise the error of a codec
    or of a comparison, which does not name the query. The number of arguments is not checked here.
    """
    kinds = ARGUMENTS.get(read, {})
    if spec.element is not None and read == "get":
        kinds = _GET_ELEMENT
    given = {**dict(zip(kinds, arguments, strict=False)), **options}
    for name, value in given.items():
        kind = kinds.get(name)
        argument = f"{read}({name}=...)"
        if (
            kind == "key"
            or (kind == "bound" and value is not None)
            or (kind == "prefix" and not isinstance(value, bytes))
        ):
            if kind != "prefix" or prefix_bytes(spec, value) is None:
                _check_key(spec, encode_key, argument, value)
        elif kind == "element" or (kind == "element bound" and value is not None):
            _check_element(spec, argument, value)
        elif kind == "index":
            index_named(spec.name, spec.indexes, value)
        elif kind == "indexed" or (kind == "indexed bound" and value is not None):
            one = index_named(spec.name, spec.indexes, given.get("index"))
            check_indexed(spec.name, one, argument, value)
        elif kind == "time" or (kind == "time or none" and value is not None):
            _check_time(spec, argument, value)
            if name == "as_of" and spec.history_ms is None:
                remedy = "Leave it out, or keep versions: Materialized(..., history=...)"
                raise _argument_error(
                    spec, f"a {spec.kind} store has no earlier values", value, remedy
                )


def prefix_bytes(spec: StoreSpec, prefix: Any) -> bytes | None:
    """Return the bytes of a prefix of keys; None if they are those of a key.

    The bytes of text and bytes begin with those of a part of it, and those of ``ordered(...)`` with
    those of the first parts. For JSON, numbers, structs, Avro and all others, a prefix of the key
    is not a prefix of its bytes: `"ada"` ends with a quotation mark, a number has a fixed length. A
    prefix of type bytes is accepted for any key. Raises StoreArgumentError.
    """
    if isinstance(prefix, bytes):
        return prefix
    try:
        of_parts = spec.key.prefix_bytes(prefix)
    except SerdeError as error:
        remedy = "Give the first parts of a key, as a tuple, or bytes"
        raise _argument_error(spec, f"prefix_scan(): {error}", prefix, remedy) from error
    if of_parts is not None or spec.key_format.get("format") in _PREFIXES:
        return of_parts
    remedy = (
        "Give the bytes that the serialized keys begin with, use range(lower, upper), or filter"
        " all(); if you often look up prefixes of keys, declare the keys as str, bytes or"
        " serdes.ordered(...)"
    )
    expected = (
        f"prefix_scan() compares serialized keys, and the bytes of {spec.key!r} do not begin with"
        " those of a part of the key; it takes bytes"
    )
    raise _argument_error(spec, expected, prefix, remedy)


def checked_partition(store: str, partition: Any) -> int | None:
    """Return the partition; raise StoreArgumentError if it is not valid."""
    if partition is None or (type(partition) is int and partition >= 0):
        return partition
    raise StoreArgumentError(
        f"store {store!r}: partition= takes an int from 0 on, found {shown(partition)}"
        f" ({type(partition).__name__}). Leave it out for the key's own partition"
    )


def _check_time(spec: StoreSpec, argument: str, given: Any) -> None:
    if type(given) is int:
        return
    remedy = "Give the number of milliseconds"
    if isinstance(given, date):
        remedy = "Give int(moment.timestamp() * 1000) of an aware datetime"
    raise _argument_error(spec, f"{argument} takes an int, ms since the epoch", given, remedy)


def _check_key(
    spec: StoreSpec, encode_key: Callable[[Any], bytes], argument: str, key: Any
) -> None:
    try:
        if key is not None:
            encode_key(key)
            return
    except RegistryError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {text_of(error)}"
        raise _argument_error(spec, f"{argument} takes {_keys(spec)}", key, why) from error
    raise _argument_error(spec, f"{argument} takes {_keys(spec)}", key, "Keys are never None")


def _check_element(spec: StoreSpec, argument: str, element: Any) -> None:
    assert spec.element is not None, "only stores of elements have such reads"
    try:
        spec.element.serializer(f"{spec.name}-changelog", True)(element)
    except RegistryError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {text_of(error)}"
        expected = f"{argument} takes {spec.element!r}"
        raise _argument_error(spec, expected, element, why) from error


def _keys(spec: StoreSpec) -> str:
    known = SCALARS.get(str(spec.key_format.get("format")))
    return f"a key of {spec.key!r}" + ("" if known is None else f": {known.type_.__name__}")


def _argument_error(spec: StoreSpec, expected: str, given: Any, remedy: str) -> StoreArgumentError:
    return StoreArgumentError(
        f"store {spec.name!r}: {expected}, found {shown(given)} ({type(given).__name__}). {remedy}"
    )
