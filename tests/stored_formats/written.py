"""What a folder of the fixtures holds: a state directory, and per store a file of JSON lines.

The lines of a store, bytes in hexadecimal digits: the records of its changelog, once as it is
logged per commit and once per update; its rows at the end; what reads answered when the state
directory was left and at the end, with the clocks of both moments.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from logstate.changelog.rows.writes import LoggedFields
from tests.unit.changelog.store_kinds import Input

FOLDERS = Path(__file__).parent / "written"
_STATE = "state.zip"
_INPUTS = "inputs.jsonl"

Moment = Literal["left", "end"]
MOMENTS: tuple[Moment, Moment] = ("left", "end")
ChangelogWrites = Literal["commit", "update"]


class Logged(msgspec.Struct, array_like=True, tag=True):
    """A record of the changelog."""

    per: ChangelogWrites
    key: str
    value: str | None
    timestamp: int | None
    headers: list[tuple[str, str | None]] | None

    @classmethod
    def of(cls, per: ChangelogWrites, record: LoggedFields) -> Logged:
        """The line of a record."""
        key, value, timestamp, headers = record
        written = None if headers is None else [(name, _hex(data)) for name, data in headers]
        return cls(per, key.hex(), _hex(value), timestamp, written)

    def record(self) -> LoggedFields:
        """The record of the line."""
        headers = self.headers
        read = None if headers is None else [(name, _bytes(data)) for name, data in headers]
        return bytes.fromhex(self.key), _bytes(self.value), self.timestamp, read


class Row(msgspec.Struct, array_like=True, tag=True):
    """A row at the end."""

    key: str
    row: str


class Seen(msgspec.Struct, array_like=True, tag=True):
    """What reads answered at a moment, and how much of the changelog there was."""

    at: Moment
    time: int
    clocks: dict[str, int]
    position: int
    answers: Any


class WrittenStore(msgspec.Struct):
    """All lines of one store."""

    logs: dict[ChangelogWrites, list[LoggedFields]]
    rows: list[tuple[bytes, bytes]]
    seen: dict[Moment, Seen]


def folders() -> list[Path]:
    """The folders in the order in which they were written."""
    return sorted(FOLDERS.iterdir(), key=lambda folder: int(folder.name))


def stores_in(folder: Path) -> list[str]:
    """The names of the stores that a folder has."""
    files = set(folder.glob("*.jsonl")) - {folder / _INPUTS}
    return sorted(file.stem for file in files)


def write_store(folder: Path, name: str, store: WrittenStore) -> None:
    """Write the file of one store."""
    lines = [Logged.of(per, record) for per, log in store.logs.items() for record in log]
    rows = [Row(key.hex(), row.hex()) for key, row in store.rows]
    _write_lines(folder / f"{name}.jsonl", [*lines, *rows, *store.seen.values()])


def read_store(folder: Path, name: str) -> WrittenStore:
    """Read the file of one store."""
    store = WrittenStore({"commit": [], "update": []}, [], {})
    for line in _lines(folder / f"{name}.jsonl"):
        one: Logged | Row | Seen = msgspec.json.decode(line, type=Logged | Row | Seen)
        match one:
            case Logged():
                store.logs[one.per].append(one.record())
            case Row():
                store.rows.append((bytes.fromhex(one.key), bytes.fromhex(one.row)))
            case Seen():
                store.seen[one.at] = one
    return store


def write_inputs(folder: Path, inputs: Iterable[Input]) -> None:
    """Write the records that the stores were given."""
    _write_lines(folder / _INPUTS, inputs)


def read_inputs(folder: Path) -> list[Input]:
    """Read the records that the stores were given."""
    return [msgspec.json.decode(line, type=Input) for line in _lines(folder / _INPUTS)]


def pack_state(folder: Path, root: Path) -> None:
    """Keep a state directory: names and contents of its files, without times and owners."""
    with zipfile.ZipFile(folder / _STATE, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in root.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(str(path.relative_to(root)))
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)


def unpack_state(folder: Path, root: Path) -> None:
    """Put the state directory below ``root``."""
    with zipfile.ZipFile(folder / _STATE) as archive:
        archive.extractall(root)


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _bytes(data: str | None) -> bytes | None:
    return None if data is None else bytes.fromhex(data)


def _write_lines(file: Path, lines: Iterable[Any]) -> None:
    file.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def _lines(file: Path) -> Iterator[bytes]:
    yield from file.read_bytes().splitlines()
