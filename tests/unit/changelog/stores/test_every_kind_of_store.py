"""Every kind of store against one model: a dict of rows and a clock.

What of the dict is shown is the one rule that windows and sessions add; keys, buffers and versions
show all of it. The store and the model get the same records, and after each of commits, applies,
aborts, rolled back records, crashes and replays they must say the same.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstate.changelog.stores.kinds import kind_of
from logstate.contracts.records import Windowed
from logstate.contracts.stores import ValueAndTimestamp, VersionedRecord
from logstate.serdes.join_serdes import Instruction, Subscription
from logstate.serdes.json_serde import json_of
from tests.examples_tried import at_most
from tests.unit.changelog.store_bench import MEDIA, StoreBench
from tests.unit.changelog.store_kinds import KEYS, KINDS, RETENTION_MS, Input, KindUnderTest
from tests.unit.changelog.stores.element_models import ELEMENT_PLAYS, EXPIRING_PLAYS
from tests.unit.changelog.stores.model import Model, Play, entries_of, get_shown, gets_of

_NO_TIME = 2**63 - 1


# --- keys and values ------------------------------------------------------------------------------


def _key_value(model: Model, one: Input) -> None:
    is_timestamped = kind_of(model.spec).row_format(model.spec).has_timestamp
    value: Any = one.value
    if is_timestamped and value is not None:
        headers = [("h", b"x")] if one.choice == 0 and model.spec.with_headers else None
        value = ValueAndTimestamp(value, one.time, headers)
    elif not is_timestamped and one.choice == 0 and value is not None:
        value = model.rows.get(one.key, value)  # put if absent
    elif not is_timestamped and one.choice == 1:
        value = None
    model.set(one.key, value)


def _expiring(model: Model, one: Input) -> None:
    """Rows are values with their times; one that has expired is as good as absent."""
    model.see(one.time)
    is_timestamped = kind_of(model.spec).row_format(model.spec).has_timestamp
    value: Any = one.value
    if value is not None and is_timestamped:
        headers = [("h", b"x")] if one.choice == 0 and model.spec.with_headers else None
        value = ValueAndTimestamp(value, one.time, headers)
    elif one.choice == 0 and value is not None and one.key in dict(_live(model)):
        return  # put if absent
    elif not is_timestamped and one.choice == 1:
        value = None
    if value is None:
        model.set(one.key, None)
    elif one.time + RETENTION_MS > model.clock:
        model.set(one.key, (value, one.time))


def _live(model: Model) -> list[tuple[str, Any]]:
    rows = sorted(model.rows.items())
    return [(key, value) for key, (value, time) in rows if time + RETENTION_MS > model.clock]


def _live_rows(model: Model) -> Any:
    return [dict(_live(model)).get(key) for key in KEYS], _live(model)


def _least_recent_goes(model: Model, one: Input) -> None:
    value: Any = one.value
    if kind_of(model.spec).row_format(model.spec).has_timestamp and value is not None:
        value = ValueAndTimestamp(value, one.time)
    model.set(one.key, value)  # the last one of the dict
    assert model.spec.capacity is not None
    while len(model.rows) > model.spec.capacity:
        del model.rows[next(iter(model.rows))]


def _all(store: Any, _: Model) -> Any:
    return list(store.all())


# --- windows and sessions -------------------------------------------------------------------------


def _window(model: Model, one: Input) -> None:
    spec = model.spec
    model.number += spec.retain_duplicates
    if spec.retain_duplicates and one.value is None:
        return
    model.see(one.time)
    value: Any = one.value
    if value is not None and kind_of(spec).row_format(spec).has_timestamp:
        value = ValueAndTimestamp(value, one.time + one.choice)
    model.set((one.key, one.time, model.number), value)


def _windows(model: Model) -> Any:
    of_all = sorted(model.visible().items())
    of_keys = [[(place[1], row) for place, row in of_all if place[0] == key] for key in KEYS]
    return of_keys, sorted((Windowed(k, s, s + 10), row) for (k, s, _), row in of_all)


def _windows_shown(store: Any, model: Model) -> Any:
    of_keys = [list(store.fetch_range(key, 0, _NO_TIME)) for key in KEYS]
    if not model.spec.retain_duplicates:
        times = {time for _, time, _ in model.rows} | {model.clock}
        for key, found in zip(KEYS, of_keys, strict=True):
            fetched = [(time, store.fetch(key, time)) for time in sorted(times)]
            assert [pair for pair in fetched if pair[1] is not None] == found
    return of_keys, sorted(store.all())


def _session(model: Model, one: Input) -> None:
    start = max(0, one.time - one.choice * 5)
    place = one.key, one.time, start
    if one.choice == 0:
        if not model.spec.in_memory:
            model.see(one.time)
        model.set(place, None)
        return
    for key, end, its_start in list(model.visible()):
        if key == one.key and end >= start and its_start <= one.time:
            model.set((key, end, its_start), None)
    model.see(one.time)
    model.set(place, one.value)


def _sessions(model: Model) -> Any:
    shown = {Windowed(k, start, end): row for (k, end, start), row in model.visible().items()}
    return [sorted(pair for pair in shown.items() if pair[0].key == key) for key in KEYS], shown


def _sessions_shown(store: Any, model: Model) -> Any:
    for key, end, start in model.rows:
        found = store.fetch_session(key, start, end)
        assert found == model.visible().get((key, end, start))
    return [sorted(store.fetch(key)) for key in KEYS], dict(store.all())


# --- versions -------------------------------------------------------------------------------------


def _version(model: Model, one: Input) -> bool:
    """A deletion at the start of a version is left out: the store may forget both."""
    value = None if one.choice == 0 else one.value
    if value is None and (one.key, one.time) in model.rows:
        return False
    if one.time >= model.clock - RETENTION_MS:
        model.see(one.time)
        model.rows[one.key, one.time] = value
    return True


def _times(model: Model) -> list[int]:
    return sorted({max(0, model.clock - by) for by in (0, 1, 9, 30, RETENTION_MS)})


def _as_of(model: Model, key: str, time: int) -> Any:
    starts = [start for k, start in model.rows if k == key and start <= time]
    value = model.rows[key, max(starts)] if starts else None
    return None if value is None else VersionedRecord(value, max(starts))


def _versions(model: Model) -> Any:
    times = [_NO_TIME, *_times(model)]
    return [[_as_of(model, key, time) for time in times] for key in KEYS]


def _versions_shown(store: Any, model: Model) -> Any:
    times = [None, *_times(model)]
    return [[store.get(key, time) for time in times] for key in KEYS]


# --- buffers --------------------------------------------------------------------------------------


def _unmatched(model: Model, one: Input) -> None:
    is_left = one.choice % 2 == 0
    place = one.time, is_left, one.key
    if one.value is not None:
        value = str(one.value) if is_left else one.value
        model.rows[place] = (*model.rows.get(place, ()), value)
    elif one.choice < 3:
        model.set(place, None)
    else:
        for old in [old for old in model.rows if old[0] < one.time - RETENTION_MS]:
            model.set(old, None)


def _unmatched_rows(model: Model) -> Any:
    return [
        (time, "left" if is_left else "right", key, value)
        for (time, is_left, key), values in sorted(model.rows.items())
        for value in values
    ]


def _waiting(model: Model, one: Input) -> None:
    grace_ms = model.spec.grace_ms or 0
    if one.value is not None and model.clock - grace_ms <= one.time:
        model.see(one.time)
        model.number += 1
        model.rows[one.time, one.key, model.number] = one.value
    for old in [old for old in model.rows if old[0] <= model.clock - grace_ms]:
        model.set(old, None)


def _suppressed(model: Model, one: Input) -> None:
    due, _, _ = model.rows.get(one.key, (one.time, None, None))
    model.rows[one.key] = due, one.value, one.time
    while len(model.rows) > 2 or _first(model)[0] < one.time - RETENTION_MS:
        del model.rows[_first(model)[1]]


def _first(model: Model) -> tuple[int, str]:
    return min(((row[0], key) for key, row in model.rows.items()), default=(2**63, ""))


def _suppressed_first(model: Model) -> Any:
    due, key = _first(model)
    return len(model.rows), due, (key, *model.rows[key][1:]) if model.rows else None


def _suppressed_shown(store: Any, _: Model) -> Any:
    first = store.first()
    shown = None if first is None else (first.key, first.new, first.timestamp)
    return store.num_records, store.min_timestamp, shown


def _subscription(model: Model, one: Input) -> None:
    if one.value is None or one.choice == 0:
        model.set((one.key, str(one.choice)), None)
        return
    asked = Subscription(None, Instruction.SUBSCRIBE_AND_ANSWER, str(one.value), one.choice)
    model.set((one.key, str(one.value)), asked)


def _subscriptions(model: Model) -> Any:
    return [[row for place, row in entries_of(model) if place[0] == key] for key in KEYS]


# --- all of them ----------------------------------------------------------------------------------

PLAYS: dict[str, Play] = {
    "key_value": Play(_key_value, gets_of, get_shown),
    "timestamped_key_value": Play(_key_value, gets_of, get_shown),
    "key_value_lru": Play(_least_recent_goes, entries_of, _all),
    "timestamped_key_value_lru": Play(_least_recent_goes, entries_of, _all),
    **ELEMENT_PLAYS,
    "window": Play(_window, _windows, _windows_shown),
    "timestamped_window": Play(_window, _windows, _windows_shown),
    "session": Play(_session, _sessions, _sessions_shown),
    "versioned": Play(_version, _versions, _versions_shown),
    "outer_join": Play(_unmatched, _unmatched_rows, _all),
    "join_buffer": Play(
        _waiting, lambda model: len(model.rows), lambda store, _: store.num_records
    ),
    "suppress_buffer": Play(_suppressed, _suppressed_first, _suppressed_shown),
    "foreign_key_subscription": Play(
        _subscription,
        _subscriptions,
        lambda store, _: [list(store.subscribers(key)) for key in KEYS],
    ),
}


EXPIRING: dict[str, Play] = {
    "key_value": Play(_expiring, _live_rows, get_shown),
    "timestamped_key_value": Play(_expiring, _live_rows, get_shown),
    **EXPIRING_PLAYS,
}


def of_json() -> Iterator[KindUnderTest]:
    """Values that are immutable, and encoded at their put all the same."""
    for kind in KINDS:
        if kind.name in ("timestamped", "timestamped window", "timestamped with a TTL"):
            spec = replace(kind.spec, value=json_of(int))
            yield replace(kind, name=f"{kind.name} of JSON", spec=spec)


#: What happens: mostly records. Time goes on a little, not at all, or by more than a retention.
HAPPENINGS = (*["record"] * 8, "undone record", "commit", "commit only", "abort", "crash", "drop")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(HAPPENINGS),
        st.sampled_from(KEYS),
        st.sampled_from((None, None, 0, 1, 2, 3)),
        st.sampled_from((0, 0, 1, 3, 10, 10, 40, RETENTION_MS + 1)),
        st.sampled_from((0, 0, 0, 5, 25, 60, RETENTION_MS - 1, RETENTION_MS, 3 * RETENTION_MS)),
        st.integers(0, 4),
    ),
    max_size=30,
)


class Bout:
    """A store and its model, taking the same steps."""

    def __init__(self, kind: KindUnderTest, directory: Path | None, *, logs_every: bool) -> None:
        self.kind = kind
        plays = PLAYS if kind.spec.ttl_ms is None else EXPIRING
        self.play = plays[kind.spec.kind]
        self.bench = StoreBench(kind.spec, directory, logs_every_write=logs_every)
        self.model = Model(kind.spec)
        self.committed = self.model.state()

    def record(self, one: Input) -> None:
        if self.kind.spec.ttl_by == "wall_clock":  # which is as late as the records are
            one = one._replace(time=max(one.time, self.model.clock))
        if self.play.process(self.model, one) is not False:
            context = self.bench.context
            context.timestamp, context.offset = one.time, context.offset + 1
            self.kind.process(self.bench.store, one, context)

    def happen(self, what: str, one: Input) -> None:
        if what == "record":
            self.record(one)
        elif what == "undone record":
            before = self.model.state()
            self.bench.begin_record()
            self.record(one)
            self.bench.end_record(rollback=True)
            self.model.go_back(before)
        elif what.startswith("commit"):
            self.bench.commit(applies=what == "commit")
            self.committed = self.model.state()
        elif what == "drop":
            self.bench.state.drop_caches()
        else:
            self.bench.discard()
            if what == "crash":
                self.crash(one.choice + 1)
            self.model.go_back(self.committed)

    def crash(self, batch: int) -> None:
        """On RocksDB the disk is left, in memory nothing but the changelog and the clocks."""
        if self.bench.directory is not None and not self.kind.spec.in_memory:
            self.bench.reopen()
            return
        crashed, self.bench = self.bench, self.bench.restored(batch, with_clocks=True)
        crashed.close()

    def compare(self, bench: StoreBench) -> None:
        assert self.play.shown(bench.store, self.model) == self.play.expected(self.model)

    def run(self, steps: list[tuple[Any, ...]]) -> None:
        now = 0
        for what, key, value, advance, delay, choice in steps:
            now += advance if what == "record" else 0
            self.happen(what, Input(key, value, max(0, now - delay), choice))
            self.compare(self.bench)
        self.bench.commit()
        self.compare(self.bench)
        for batch in (1, 1_000):
            restored = self.bench.restored(batch, with_clocks=True)
            self.compare(restored)
            restored.close()
        self.bench.close()


@pytest.mark.parametrize("logs_every", [False, True], ids=["per-commit", "per-update"])
@pytest.mark.parametrize("medium", MEDIA)
@pytest.mark.parametrize("kind", [*KINDS, *of_json()], ids=lambda kind: kind.name.replace(" ", "-"))
@settings(max_examples=at_most(20))
@given(steps=STEPS)
def test_a_store_shows_what_a_dict_holds_after_any_steps_and_any_replay(
    kind: KindUnderTest, medium: str, logs_every: bool, steps: list[tuple[Any, ...]]
) -> None:
    if medium == "memory":
        Bout(kind, None, logs_every=logs_every).run(steps)
        return
    with tempfile.TemporaryDirectory() as directory:
        Bout(kind, Path(directory) / "db", logs_every=logs_every).run(steps)


def test_every_kind_has_a_model() -> None:
    assert {kind.spec.kind for kind in KINDS} == set(PLAYS)
