"""Every kind of store as crash tests see it: what a record does to it, and what it answers.

A record is four small numbers and a time; each kind makes of it what its operators would. Answers
are everything that can be read, around the store's clock and far from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from logstate import serdes
from logstate.changelog.stores.versioned_reads import LATEST
from logstate.contracts.changelog_keys import WINDOW, session_times
from logstate.contracts.records import Windowed
from logstate.contracts.stores import ValueAndTimestamp
from logstate.serdes.join_serdes import (
    CombinedKeySerde,
    Instruction,
    SideSerde,
    Subscription,
    SubscriptionSerde,
)
from tests.unit.changelog.element_kinds import ELEMENT_KINDS
from tests.unit.changelog.kind_under_test import (
    INDEXES,
    KEYS,
    NUMBER,
    RETENTION_MS,
    TEXT,
    Input,
    KindUnderTest,
    entries_of,
    indexed_entries_of,
    spec_of,
    without_index_times,
)
from tests.unit.changelog.store_bench import BenchContext

SEGMENT_MS = 30
_FAR = 2**62


def _times(clock: int) -> list[int]:
    """Around the clock and the end of the retention, and at the ends of time."""
    near = [clock + by for by in (-RETENTION_MS - 1, -RETENTION_MS, -SEGMENT_MS, -7, 0, 1)]
    return sorted({0, 25, *(time for time in near if time >= 0)})


# --- keys and values ------------------------------------------------------------------------------


def _put(store: Any, one: Input, context: BenchContext) -> None:
    if one.choice == 0 and one.value is not None:
        store.put_if_absent(one.key, one.value)
    elif one.choice == 1:
        store.delete(one.key)
    else:
        store.put(one.key, one.value)


def _put_only(store: Any, one: Input, context: BenchContext) -> None:
    store.put(one.key, one.value)


def _put_row(store: Any, one: Input, context: BenchContext) -> None:
    headers = [("h", b"x")] if one.choice == 0 else None
    store.put(
        one.key,
        None if one.value is None else ValueAndTimestamp(one.value, one.time, headers),
    )


def _put_at(store: Any, one: Input, context: BenchContext) -> None:
    if isinstance(context, BenchContext):  # a task has seen the time of the record
        context.see(one.time)
    _put(store, one, context)


def _put_row_at(store: Any, one: Input, context: BenchContext) -> None:
    if isinstance(context, BenchContext):  # a task has seen the time of the record
        context.see(one.time)
    _put_row(store, one, context)


def _all(store: Any, clock: int) -> Any:
    return list(store.all())


def _without_sequences(store: Any, rows: list[tuple[bytes, bytes]]) -> Any:
    """Of an LRU store: the values, and the keys in the order of their last put."""
    entries = [(key, row[8:]) for key, row in rows if key[:1] == b"\x00"]
    return entries, [key for index, key in rows if index[:1] == b"\x01"]


# --- windows --------------------------------------------------------------------------------------


def _put_window(store: Any, one: Input, context: BenchContext) -> None:
    store.put(one.key, one.value, one.time)


def _put_window_row(store: Any, one: Input, context: BenchContext) -> None:
    row = None if one.value is None else ValueAndTimestamp(one.value, one.time + one.choice)
    store.put(one.key, row, one.time)


def _windows(store: Any, clock: int) -> Any:
    times = _times(clock)
    return (
        [list(store.fetch_range(key, 0, _FAR)) for key in KEYS],
        [list(store.fetch_range("a", time, time + 40, reverse=True)) for time in times],
        [list(store.fetch_all(time, _FAR)) for time in times],
        list(store.fetch_key_range("a", "aa", 0, clock)),
        list(store.all()),
    )


def _single_windows(store: Any, clock: int) -> Any:
    return [store.fetch(key, time) for key in KEYS for time in _times(clock)], _windows(
        store, clock
    )


def _visible(store: Any, rows: list[tuple[bytes, bytes]]) -> Any:
    """Without those that are hidden for good: a late put is logged, though nobody sees its row."""
    oldest = store._oldest()
    return [(key, row) for key, row in rows if WINDOW.expiry_time(key) >= oldest]


def _live_segments(store: Any, rows: list[tuple[bytes, bytes]]) -> Any:
    first = store.segments.first_part().to_bytes(8, "big")
    return [(key, row) for key, row in rows if key[:8] >= first]


def _sessions_in_memory(store: Any, rows: list[tuple[bytes, bytes]]) -> Any:
    """In memory a session expires by its end: what is older may be there until its segment goes."""
    first_end = store.segments.cell.time - store.segments.retention_ms + 1
    return [(key, row) for key, row in rows if session_times(key[8:])[0] >= first_end]


# --- sessions -------------------------------------------------------------------------------------


def _put_session(store: Any, one: Input, context: BenchContext) -> None:
    start = max(0, one.time - one.choice * 5)
    session = Windowed(one.key, start, one.time)
    if one.choice == 0:
        store.remove(session)
    else:
        # As an aggregation does: what it merges goes away.
        for found, _ in list(store.find_sessions(one.key, start, one.time)):
            store.remove(found)
        store.put(session, one.value)


def _sessions(store: Any, clock: int) -> Any:
    times = _times(clock)
    return (
        [list(store.fetch(key, reverse=reverse)) for key in KEYS for reverse in (False, True)],
        [list(store.find_sessions("a", time, time + 40)) for time in times],
        [list(store.find_ended(time, _FAR)) for time in times],
        list(store.all()),
    )


# --- versions -------------------------------------------------------------------------------------


def _put_version(store: Any, one: Input, context: BenchContext) -> None:
    if one.choice == 0:
        store.delete(one.key, one.time)
    else:
        store.put(one.key, one.value, one.time)


def _versions(store: Any, clock: int) -> Any:
    return (
        [store.get(key) for key in KEYS],
        [store.get(key, time) for key in KEYS for time in _times(clock)],
        [list(store.versions(key)) for key in KEYS],
    )


def _live_versions(store: Any, rows: list[tuple[bytes, bytes]]) -> Any:
    first = store.segments.first_live().to_bytes(8, "big")
    return [(key, row) for key, row in rows if key[:1] == LATEST or key[:8] >= first]


# --- buffers --------------------------------------------------------------------------------------


def _unmatched(store: Any, one: Input, context: BenchContext) -> None:
    is_left = one.choice % 2 == 0
    if one.value is not None:
        store.add(one.time, is_left, one.key, str(one.value) if is_left else one.value)
    elif one.choice < 3:
        store.take_out(one.time, is_left, one.key)
    else:
        for time, is_left_row, key, _ in list(store.rows()):
            if time < one.time - RETENTION_MS:
                store.remove(time, is_left_row, key)


def _wait(store: Any, one: Input, context: BenchContext) -> None:
    if one.value is not None:
        store.put(one.key, one.value, one.time, [("h", b"x")] if one.choice == 0 else None)
    for waiting in list(store.expired()):
        store.remove(waiting)


def _waiting(store: Any, clock: int) -> Any:
    return store.num_records, store.min_timestamp


def _suppress(store: Any, one: Input, context: BenchContext) -> None:
    _, prior = store.prior(one.key)
    store.put(one.key, one.value, prior, one.time, one.time, None)
    while store.num_records > 2 or store.min_timestamp < one.time - RETENTION_MS:
        store.remove_first()


def _suppressed(store: Any, clock: int) -> Any:
    priors = [store.prior(key) for key in KEYS]
    return store.num_records, store.size_bytes, store.min_timestamp, store.first(), priors


def _without_version(store: Any, rows: list[tuple[bytes, bytes]]) -> Any:
    return [(key, row) for key, row in rows if key != b"v"]


def _subscribe(store: Any, one: Input, context: BenchContext) -> None:
    instruction = Instruction.SUBSCRIBE_AND_ANSWER
    subscription = Subscription(None, instruction, str(one.value), one.choice)
    if one.value is None or one.choice == 0:
        store.delete(one.key, subscription._replace(primary_key=str(one.choice)))
    else:
        store.put(one.key, subscription)


def _subscribers(store: Any, clock: int) -> Any:
    return [list(store.subscribers(key)) for key in KEYS], store.num_records


# --- all of them ----------------------------------------------------------------------------------


def _of_keys() -> Iterator[KindUnderTest]:
    yield KindUnderTest("key-value", spec_of("key_value"), _put, entries_of)
    yield KindUnderTest(
        "key-value in memory", spec_of("key_value", in_memory=True), _put, entries_of
    )
    rows = KindUnderTest("timestamped", spec_of("timestamped_key_value"), _put_row, entries_of)
    yield rows
    yield replace(
        rows,
        name="timestamped with headers",
        spec=spec_of("timestamped_key_value", with_headers=True),
    )
    expiring = KindUnderTest(
        "key-value with a TTL",
        spec_of("key_value", ttl_ms=RETENTION_MS),
        _put_at,
        entries_of,
        without_index_times,
    )
    yield expiring
    yield replace(
        expiring,
        name="key-value with a TTL in memory",
        spec=replace(expiring.spec, in_memory=True),
    )
    by_wall_clock = replace(expiring.spec, ttl_by="wall_clock")
    yield replace(expiring, name="key-value with a TTL by the wall clock", spec=by_wall_clock)
    rows = replace(rows, process=_put_row_at, rows=without_index_times)
    for is_with_headers in (False, True):
        options = {"with_headers": is_with_headers, "ttl_ms": RETENTION_MS}
        spec = spec_of("timestamped_key_value", **options)
        yield replace(
            rows, name="timestamped with a TTL" + " and headers" * is_with_headers, spec=spec
        )
    yield from _of_indexes(rows)
    lru = spec_of("key_value_lru", in_memory=True, capacity=2)
    # Uses are not logged, so entries are put and not asked for: see the store.
    yield KindUnderTest("LRU", lru, _put_only, _all, _without_sequences)
    table = spec_of("timestamped_key_value_lru", in_memory=True, capacity=2)
    yield KindUnderTest("LRU of a table", table, _put_row, _all, _without_sequences)


def _of_indexes(rows: KindUnderTest) -> Iterator[KindUnderTest]:
    plain = spec_of("key_value", indexes=INDEXES)
    of_plain = KindUnderTest("key-value with indexes", plain, _put, indexed_entries_of)
    yield of_plain
    in_memory = replace(plain, in_memory=True)
    yield replace(of_plain, name="key-value with indexes in memory", spec=in_memory)
    of_any_json = replace(plain, value=serdes.json)
    yield replace(of_plain, name="key-value of JSON with indexes", spec=of_any_json)
    yield replace(
        of_plain,
        name="key-value with a TTL and indexes",
        spec=replace(plain, ttl_ms=RETENTION_MS),
        process=_put_at,
        rows=without_index_times,
    )
    for value, of in ((NUMBER, ""), (serdes.json, " of JSON")):
        yield replace(
            rows,
            name=f"timestamped{of} with a TTL and indexes",
            spec=spec_of(
                "timestamped_key_value", value=value, ttl_ms=RETENTION_MS, indexes=INDEXES
            ),
            answers=indexed_entries_of,
        )
    for is_with_headers in (False, True):
        options = {"with_headers": is_with_headers, "indexes": INDEXES}
        yield replace(
            rows,
            name="timestamped with indexes" + " and headers" * is_with_headers,
            spec=spec_of("timestamped_key_value", **options),
            process=_put_row,
            rows=lambda _, found: found,
            answers=indexed_entries_of,
        )


def _of_windows() -> Iterator[KindUnderTest]:
    times = {"retention_ms": RETENTION_MS, "window_size_ms": 10}
    window = KindUnderTest(
        "window", spec_of("window", **times), _put_window, _single_windows, _visible
    )
    yield window
    yield replace(
        window,
        name="window of short segments",
        spec=spec_of("window", segment_interval_ms=SEGMENT_MS, **times),
    )
    yield replace(window, name="window in memory", spec=spec_of("window", in_memory=True, **times))
    timestamped = spec_of("timestamped_window", **times)
    yield replace(window, name="timestamped window", spec=timestamped, process=_put_window_row)
    yield replace(
        window,
        name="timestamped window of final results",
        spec=replace(timestamped, keep_at_retention=True),
        process=_put_window_row,
    )
    yield replace(
        window,
        name="window with duplicates",
        spec=spec_of("window", retain_duplicates=True, **times),
        answers=_windows,
    )


def _of_sessions() -> Iterator[KindUnderTest]:
    session = KindUnderTest(
        "session",
        spec_of("session", retention_ms=RETENTION_MS, segment_interval_ms=SEGMENT_MS),
        _put_session,
        _sessions,
        _live_segments,
    )
    yield session
    yield replace(
        session,
        name="session of final results",
        spec=replace(session.spec, keep_at_retention=True),
    )
    yield replace(
        session,
        name="session in memory",
        spec=replace(session.spec, in_memory=True),
        rows=_sessions_in_memory,
    )
    yield replace(
        session, name="session with headers", spec=replace(session.spec, with_headers=True)
    )


def _others() -> Iterator[KindUnderTest]:
    versioned = spec_of("versioned", history_ms=RETENTION_MS, segment_interval_ms=SEGMENT_MS)
    yield KindUnderTest("versioned", versioned, _put_version, _versions, _live_versions)
    unmatched = spec_of("outer_join", value=SideSerde(TEXT, NUMBER))
    yield KindUnderTest("outer-join buffer", unmatched, _unmatched, _all)
    waiting = spec_of("join_buffer", grace_ms=25)
    yield KindUnderTest("join buffer", waiting, _wait, _waiting)
    yield KindUnderTest(
        "suppress buffer", spec_of("suppress_buffer"), _suppress, _suppressed, _without_version
    )
    keys = CombinedKeySerde(TEXT, TEXT, registration_topic="j-registration-topic")
    subscriptions = spec_of("foreign_key_subscription", keys, SubscriptionSerde(TEXT))
    yield KindUnderTest("foreign-key subscriptions", subscriptions, _subscribe, _subscribers)


KINDS = (*_of_keys(), *ELEMENT_KINDS, *_of_windows(), *_of_sessions(), *_others())
