"""Rows of a store kept as objects: puts are buffered here, and written once per commit.

A hot key is read and written many times between two commits; its row is needed once. So reads
return the object that was put or decoded last, and rows that were put are *pending* until a
commit, a scan or an expiry needs bytes. That saves most of the cost of a count.

Bytes stay the authority, so when a value is encoded depends on the value:

- at the flush, if nothing can go wrong then (:mod:`logstate.changelog.rows.deferred_values`); its
  object is read meanwhile;
- at its put, if it is of another immutable type; reads return what the bytes decode to, never
  the object that was put, whose fields are not checked: an int in the place of a float is read
  back as a float;
- without this class, together with its row, if every write is logged; rows that are deleted or
  have headers always.

Invariants:
1. ``rows`` holds what the bytes of a row decode to, or would;
2. a key of ``row_keys`` is pending and newer than the rows below: its value is in ``encoded`` if it
   was encoded at its put, else in ``rows``; every other row of ``rows`` equals the row below.

The rows below say when to flush and to forget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from itertools import islice
from math import ceil
from typing import Any, Final, NamedTuple

from logstate.changelog.rows.deferred_values import deferred_encoder, deferred_values
from logstate.changelog.rows.row_codec import RowCodec
from logstate.changelog.rows.rows import RowCache, drop_some
from logstate.changelog.rows.serialization_errors import value_serialization_error
from logstate.changelog.rows.writes import ChangelogWrites, LoggedFields
from logstate.contracts.formats import SCALARS
from logstate.contracts.generated_code import make_function
from logstate.contracts.stores import StoredRow, StoreSpec, ValueAndTimestamp

#: memory of a row kept as objects, without its data: an entry of a dict, a tuple, two headers
_ROW_BYTES: Final = 220
#: measured: how many times the bytes of a row its objects take, of scalars and of all other values
_SCALAR_FACTOR, _OBJECT_FACTOR = 1, 3


class LoadedRows(dict[Any, Any]):
    """Rows by key; one that is not there is loaded by ``rows[key]``. None is never kept.

    A hit costs no Python frame, which is what this class is for.
    """

    __slots__ = ("load",)

    load: Callable[[Any], StoredRow | None]

    def __missing__(self, key: Any) -> StoredRow | None:
        row = self.load(key)
        if row is not None:
            self[key] = row
        return row


#: The put of a store: ``accept`` notes the serialised key of a row that may wait, or returns.
_PUT: Final = """\
def bind(rows, row_keys, encoded, type_, encode_value, refused, direct, {names}):
    def put({arguments}):
        {place_is}
        if row is not None:
            value = row[0]
            if (
                {condition}
            ):
                {accept}
                return
        row_keys.pop({place}, None)
        rows.pop({place}, None)
        encoded.pop({place}, None)
        direct({arguments})
    return put
"""
_OF_TYPE: Final = "type(value) is type_ and row[2] is None and ({condition})"
_ENCODED: Final = "value is not None and row[2] is None"
_KEEP: Final = "{accept}\nrows[{place}] = row"
_KEEP_ENCODED: Final = """\
try:
    data = encode_value(value)
except Exception as error:
    raise refused(error) from error.__cause__
{accept}
rows.pop({place}, None)
encoded[{place}] = data, row[1]"""


class PutText(NamedTuple):
    """The parts of a put that are a store's own; ``accept`` is about names that are bound to it."""

    arguments: str
    place: str
    place_is: str
    accept: str


PUT_BY_KEY: Final = PutText(
    "key, row",
    "key",
    "",
    """\
try:
    if key not in row_keys:
        row_keys[key] = encode_key(key)
except Exception as error:
    raise key_serialization_error(key, error) from error.__cause__""",
)


#: the same of rows with a TTL: one that has expired already is given to ``drop`` instead
PUT_OF_LIVE_BY_KEY: Final = PUT_BY_KEY._replace(
    place_is="""\
if row is not None and row[0] is not None and row[1] + ttl_ms <= context.stream_time:
            return drop(row)"""
)


@lru_cache(maxsize=1_000)
def _put_function(
    text: PutText, condition: str, keep: str, names: tuple[str, ...], origin: str
) -> Any:
    """Return the generated binding of a put to its store: cached, because every task needs it."""
    arguments, place, place_is, accept = text
    parts = {
        "condition": condition,
        "accept": keep.format(accept=accept, place=place) or "pass",
    }
    indented = {name: part.replace("\n", "\n" + " " * 16) for name, part in parts.items()}
    source = _PUT.format(
        names=", ".join(names), arguments=arguments, place=place, place_is=place_is, **indented
    )
    return make_function("bind", source, origin)


class WriteBehind(RowCache):
    """The rows of one timestamped store that were read or written lately.

    The dicts are filled by functions that hold on to them: they are never replaced.
    """

    def __init__(
        self,
        spec: StoreSpec,
        codec: RowCodec,
        writes: ChangelogWrites,
        put_rows: Callable[[Mapping[bytes, bytes | None]], None],
        *,
        waits_as_bytes: bool = False,
        log_key_at: int = 0,
    ) -> None:
        """``waits_as_bytes``: of values that are not deferred; else they are written at their put.

        A row's key is logged from ``log_key_at`` on.
        """
        self.rows = LoadedRows()
        #: the serialised key of each pending row
        self.row_keys: dict[Any, bytes] = {}
        #: value and timestamp of each pending row that was encoded at its put
        self.encoded: dict[Any, tuple[bytes, int]] = {}
        self._codec = codec
        self._put_rows, self._log_all = put_rows, writes.add_all
        self._log_key_at = log_key_at
        self._encode_deferred = deferred_encoder(codec, spec.value)
        self._type: type[Any] | None = None
        self._condition, self._keep = "False", ""
        is_scalar = spec.value.describe()["format"] in SCALARS
        self._object_factor = _SCALAR_FACTOR if is_scalar else _OBJECT_FACTOR
        if writes.logs_every_write:
            return
        deferred = deferred_values(spec.key, spec.value)
        if deferred is not None:
            self._type, condition = deferred
            self._condition, self._keep = _OF_TYPE.format(condition=condition), _KEEP
            self.keeps_written = True
        elif waits_as_bytes:
            self._condition, self._keep = _ENCODED, _KEEP_ENCODED

    def bound_reads(
        self, load: Callable[[Any], StoredRow | None]
    ) -> tuple[Callable[[Any], Any], Callable[[Any], StoredRow | None]]:
        """The reads of a place, for users and for operators, whose rows may be plain tuples.

        ``load`` reads a row that is not here.
        """
        encoded, decode_value = self.encoded, self._codec.decode_value
        new = tuple.__new__

        def load_encoded(place: Any) -> StoredRow | None:
            waiting = encoded.get(place)
            if waiting is None:
                return load(place)
            return new(ValueAndTimestamp, (decode_value(waiting[0]), waiting[1], None))

        self.rows.load = load_encoded if self._keep is _KEEP_ENCODED else load
        read = self.rows.__getitem__
        return self.bound_get() if self._keep is _KEEP else read, read

    def bound_get(
        self,
        is_allowed: Callable[[], bool] | None = None,
        refuse: Callable[[], None] = lambda: None,
    ) -> Callable[[Any], Any]:
        """The read for users; calls ``refuse`` first, unless ``is_allowed``."""
        read, new = self.rows.__getitem__, tuple.__new__

        def named(place: Any) -> ValueAndTimestamp[Any] | None:
            if is_allowed is not None and not is_allowed():
                refuse()
            row = read(place)
            return None if row is None else new(ValueAndTimestamp, row)

        return named

    def bound_put(
        self, direct: Callable[..., None], text: PutText = PUT_BY_KEY, **names: Any
    ) -> Callable[..., None]:
        """The put of the store; ``direct`` writes at once what cannot wait.

        The condition is a part of it: one frame less per record than a closure that calls a check.
        """
        origin = "put" if self._type is None else f"put of {self._type.__qualname__}"
        bind = _put_function(text, self._condition, self._keep, tuple(names), origin)
        put: Callable[..., None] = bind(
            self.rows,
            self.row_keys,
            self.encoded,
            self._type,
            self._codec.encode_value,
            partial(value_serialization_error, self._codec.store),
            direct,
            **names,
        )
        return put

    # ------------------------------------------------------------------ asked by the rows below

    def cached_bytes(self, row_bytes: float) -> int:
        """Estimated: what objects take is not asked for each of them."""
        return int(len(self.rows) * (_ROW_BYTES + self._object_factor * row_bytes))

    def evict(self, share: float) -> None:
        """Pending rows stay."""
        rows, pending = self.rows, self.row_keys
        oldest = list(islice(rows, ceil(len(rows) * share)))
        for place in oldest:
            if place not in pending:
                del rows[place]

    def __len__(self) -> int:
        return len(self.rows) + len(self.encoded)

    def flush(self) -> None:
        """Encode, store and log pending rows."""
        if not self.row_keys:
            return
        rows, encoded, log_key_at = self.rows, self.encoded, self._log_key_at
        encode_value, new_row = self._encode_deferred, self._codec.row_format.encode
        put: dict[bytes, bytes | None] = {}
        logged: dict[bytes, LoggedFields] = {}
        for place, row_key in self.row_keys.items():
            if encoded:
                data, timestamp = encoded[place]
            else:
                value, timestamp, _ = rows[place]
                data = encode_value(value)
            put[row_key] = new_row(data, timestamp, None)
            log_key = row_key[log_key_at:] if log_key_at else row_key
            logged[log_key] = log_key, data, timestamp, None
        self._put_rows(put)
        self._log_all(logged)
        self.row_keys.clear()
        encoded.clear()

    def expire(self) -> None:
        """Write pending rows and drop the rest, which may be expired."""
        self.flush()
        self.rows.clear()

    def forget(self) -> None:
        """Drop everything, pending rows too: they were never committed."""
        self.row_keys.clear()
        self.encoded.clear()
        self.rows.clear()

    def forget_known(self) -> None:
        """Drop what the rows below hold too."""
        pending = {place: self.rows[place] for place in self.row_keys if place in self.rows}
        self.rows.clear()
        self.rows.update(pending)

    def release(self, count: int) -> int:
        """Drop up to so many rows, pending or not: all will be dropped. How many it were."""
        return drop_some(self.rows, count)
