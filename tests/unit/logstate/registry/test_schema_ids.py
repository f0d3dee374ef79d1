import threading

import pytest

from logstate.contracts.errors import RegistryError
from logstate.registry.schema_ids import SchemaIds, UnknownSchemaError
from tests.patience import PATIENCE_S


class Source:
    """Knows even ids; counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.now = 0.0

    def load(self, schema_id: int) -> str:
        self.asked.append(schema_id)
        if schema_id % 2:
            raise UnknownSchemaError(f"{schema_id} is unknown")
        return f"reader {schema_id}"

    def clock(self) -> float:
        return self.now


def test_a_known_id_is_loaded_once() -> None:
    source = Source()
    ids = SchemaIds(source.load)

    assert [ids.get(2), ids.get(2)] == ["reader 2", "reader 2"]
    assert source.asked == [2]


def test_an_unknown_id_is_asked_for_again_after_its_time() -> None:
    source = Source()
    ids = SchemaIds(source.load, missing_ttl_s=30, clock=source.clock)

    for source.now in (0.0, 29.0, 30.0):
        with pytest.raises(UnknownSchemaError, match="3 is unknown"):
            ids.get(3)

    assert source.asked == [3, 3]


def test_both_sides_are_bounded() -> None:
    source = Source()
    ids = SchemaIds(source.load, capacity=2, clock=source.clock)
    for schema_id in (2, 4, 6):
        ids.get(schema_id)
    for schema_id in (1, 3, 5):
        with pytest.raises(UnknownSchemaError):
            ids.get(schema_id)

    assert list(ids.found) == [4, 6]
    source.asked.clear()
    for schema_id in (3, 5, 1):
        with pytest.raises(UnknownSchemaError):
            ids.get(schema_id)
    assert source.asked == [1]


def test_other_failures_are_not_remembered() -> None:
    answers = iter([RegistryError("down"), None])

    def load(_schema_id: int) -> str:
        answer = next(answers)
        if answer is not None:
            raise answer
        return "reader"

    ids = SchemaIds(load)
    with pytest.raises(RegistryError):
        ids.get(1)
    assert ids.get(1) == "reader"


def test_threads_that_want_the_same_id_ask_once() -> None:
    source, start = Source(), threading.Barrier(4)
    ids = SchemaIds(source.load)

    def ask() -> None:
        start.wait(timeout=PATIENCE_S)
        ids.get(2)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=PATIENCE_S)

    assert source.asked == [2]
