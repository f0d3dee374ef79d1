"""What an earlier version wrote, opened, restored and written again by the code of today."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.stored_formats.stores import STORES
from tests.stored_formats.task import StoresOfTask, rows_on_disk
from tests.stored_formats.writing import Written, write
from tests.stored_formats.written import (
    ChangelogWrites,
    folders,
    read_inputs,
    read_store,
    stores_in,
    unpack_state,
)
from tests.unit.changelog.store_kinds import KINDS

FOLDERS = {folder.name: folder for folder in folders()}
EVERY_STORE = [(number, name) for number in FOLDERS for name in stores_in(FOLDERS[number])]

each_store = pytest.mark.parametrize(("number", "name"), EVERY_STORE)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, StoresOfTask]]:
    """The state directory of each folder, opened as it is; positions are those beside the rows."""
    tasks = {}
    for number, folder in FOLDERS.items():
        root = tmp_path_factory.mktemp(f"opened-{number}")
        unpack_state(folder, root)
        tasks[number] = StoresOfTask(root, [STORES[name] for name in stores_in(folder)])
    yield tasks
    for task in tasks.values():
        task.close()


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Written]:
    """Each folder's stores, written by the code of today."""
    return {
        number: write(
            [name for name in STORES if name in stores_in(folder)],
            read_inputs(folder),
            tmp_path_factory.mktemp(f"again-{number}"),
        )
        for number, folder in FOLDERS.items()
    }


def test_every_store_has_a_fixture() -> None:
    """Of one that is new `python -m tests.stored_formats FOLDER` writes it."""
    there = [name for _, name in EVERY_STORE]
    assert sorted(STORES) == sorted(there)
    assert len(STORES) > len(KINDS)


@each_store
def test_a_state_directory_is_opened_as_it_is_and_brought_up_to_date(
    opened: dict[str, StoresOfTask], number: str, name: str
) -> None:
    task, store = opened[number], read_store(FOLDERS[number], name)
    left, end = store.seen["left"], store.seen["end"]
    on_disk = 0 if STORES[name].spec.in_memory else left.position
    assert task.state.positions.get(name, 0) == on_disk
    task.state.set_clocks(left.clocks)
    task.replay(name, store.logs["commit"][: left.position])  # what lies in no directory
    task.started()
    assert task.answers(name, left.time) == left.answers

    task.start(end.clocks)
    task.replay(name, store.logs["commit"])
    task.started()
    assert task.answers(name, end.time) == end.answers
    assert task.lasting(name, task.rows(name)) == task.lasting(name, store.rows)


@pytest.mark.parametrize("per", ["commit", "update"])
@each_store
def test_a_changelog_restores_an_empty_store(
    tmp_path: Path, number: str, name: str, per: ChangelogWrites
) -> None:
    store = read_store(FOLDERS[number], name)
    end = store.seen["end"]
    task = StoresOfTask(tmp_path, [STORES[name]])
    task.start(end.clocks)
    task.replay(name, store.logs[per])
    task.started()
    assert task.answers(name, end.time) == end.answers
    assert task.lasting(name, task.rows(name)) == task.lasting(name, store.rows)
    task.close()


@each_store
def test_the_same_records_are_logged_in_the_same_bytes(
    again: dict[str, Written], number: str, name: str
) -> None:
    before, now = read_store(FOLDERS[number], name), again[number].stores[name]
    assert now.logs == before.logs
    assert now.seen == before.seen
    assert now.rows == before.rows


@pytest.mark.parametrize("number", FOLDERS)
def test_the_same_records_leave_the_same_rows_on_the_disk(
    again: dict[str, Written], tmp_path: Path, number: str
) -> None:
    """Of every store, with its positions, clocks and fingerprints; later versions add fields."""
    unpack_state(FOLDERS[number], tmp_path)
    (key, meta), *rows = rows_on_disk(tmp_path)
    (key_again, meta_again), *rows_again = again[number].on_disk
    assert (key_again, rows_again) == (key, rows)
    fields, fields_again = msgspec.msgpack.decode(meta), msgspec.msgpack.decode(meta_again)
    assert fields_again.keys() - fields.keys() <= {"begins", "local_rows", "local_writer"}
    assert {name: fields_again[name] for name in fields} == fields
