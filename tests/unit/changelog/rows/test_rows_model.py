"""Rows against a dict, under any sequence of writes, commits, applies, aborts and rollbacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from logstate.changelog.backend.backend import KeyRange
from logstate.changelog.backend.memory import MemoryBackend
from logstate.changelog.rows.layers import Layer
from logstate.changelog.rows.rows import Rows

PREFIX = b"\x01\x00\x07"
KEYS = [bytes([letter]) + tail for letter in b"abcdef" for tail in (b"", b"\x00", b"\xff")]


@dataclass(frozen=True)
class Contents:
    """What a store holds; keys below ``horizon`` have expired and are not looked at again."""

    rows: dict[bytes, bytes] = field(default_factory=dict)
    horizon: bytes = b""

    def put(self, key: bytes, value: bytes | None) -> Contents:
        rows = {k: v for k, v in self.rows.items() if k != key}
        return replace(self, rows=rows if value is None else {**rows, key: value})

    def expire(self, horizon: bytes) -> Contents:
        return Contents({k: v for k, v in self.rows.items() if k >= horizon}, horizon)

    def between(self, lower: bytes, upper: bytes | None) -> list[tuple[bytes, bytes]]:
        return [
            (k, v)
            for k, v in sorted(self.rows.items())
            if k >= max(lower, self.horizon) and (upper is None or k < upper)
        ]


class Machine:
    """The rows under test beside their model."""

    def __init__(self) -> None:
        self.backend = MemoryBackend()
        self.rows = Rows(PREFIX, self.backend)
        self.current = Contents()
        self.frozen: list[tuple[Layer, Contents]] = []
        self.committed = Contents()
        self.applied = Contents()
        self.journal: Contents | None = None
        self.scans: list[tuple[Iterator[tuple[bytes, bytes]], list[tuple[bytes, bytes]]]] = []

    def put(self, key: bytes, value: bytes | None) -> None:
        if key >= self.current.horizon:
            self.rows.put(key, value)
            self.current = self.current.put(key, value)

    def expire(self, horizon: bytes) -> None:
        if horizon > self.current.horizon:
            self.rows.delete_range(self.current.horizon, horizon)
            self.current = self.current.expire(horizon)

    def scan(self, lower: bytes, upper: bytes | None, *, reverse: bool) -> None:
        lower = max(lower, self.current.horizon)
        expected = self.current.between(lower, upper)
        scan = self.rows.scan(lower, upper, reverse=reverse)
        self.scans.append((scan, expected[::-1] if reverse else expected))

    def begin_journal(self) -> None:
        if self.journal is None:
            self.rows.begin_journal()
            self.journal = self.current

    def end_journal(self, *, rollback: bool) -> None:
        if self.journal is not None:
            self.rows.end_journal(rollback=rollback)
            self.current = self.journal if rollback else self.current
            self.journal = None

    def freeze(self) -> None:
        self.end_journal(rollback=False)  # a commit never falls into a record
        self.frozen.append((self.rows.freeze(), self.current))

    def commit(self) -> None:
        if self.frozen:
            layer, self.committed = self.frozen.pop(0)
            self.rows.committed(layer)

    def apply(self) -> None:
        merged: dict[bytes, bytes | None] = {}
        ranges: list[KeyRange] = []
        for layer in self.rows.unapplied():
            merged.update({PREFIX + key: value for key, value in layer.rows.items()})
            ranges += [(PREFIX + lower, PREFIX + upper) for lower, upper in layer.ranges]
        self.backend.write(merged, ranges)
        self.rows.applied()
        self.applied = self.committed

    def discard(self) -> None:
        self.rows.discard()
        self.current, self.frozen, self.journal = self.committed, [], None

    def check(self) -> None:
        for key in KEYS:
            if key >= self.current.horizon:
                assert self.rows.get(key) == self.current.rows.get(key), key
        seen = list(self.rows.scan(self.current.horizon))
        assert seen == self.current.between(b"", None)
        applied = [
            (key[len(PREFIX) :], value)
            for key, value in self.backend.scan(PREFIX, b"\x02")
            if key[len(PREFIX) :] >= self.applied.horizon
        ]
        assert applied == self.applied.between(b"", None)


keys = st.sampled_from(KEYS)
steps = st.one_of(
    st.tuples(st.just("put"), keys, st.none() | st.sampled_from([b"", b"1", b"2"])),
    st.tuples(st.just("expire"), keys),
    st.tuples(st.just("scan"), keys, st.none() | keys, st.booleans()),
    st.tuples(st.just("begin_journal")),
    st.tuples(st.just("end_journal"), st.booleans()),
    st.tuples(st.sampled_from(["freeze", "commit", "apply", "discard", "drop_cache"])),
)


@given(st.lists(steps, max_size=40))
def test_rows_are_a_dict_whatever_is_committed_applied_or_taken_back(
    script: list[tuple[object, ...]],
) -> None:
    machine = Machine()
    for step in script:
        match step:
            case ("put", bytes(key), bytes() | None as value):
                machine.put(key, value)
            case ("expire", bytes(horizon)):
                machine.expire(horizon)
            case ("scan", bytes(lower), bytes() | None as upper, bool(reverse)):
                machine.scan(lower, upper, reverse=reverse)
            case ("end_journal", bool(rollback)):
                machine.end_journal(rollback=rollback)
            case ("drop_cache",):
                machine.rows.drop_cache()
            case (str(name),):
                getattr(machine, name)()
        machine.check()
    for scan, expected in machine.scans:
        assert list(scan) == expected
