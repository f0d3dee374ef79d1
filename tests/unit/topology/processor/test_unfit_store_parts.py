"""Keys and values that do not fit a store of a processor: the error names store and part."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from logstate.contracts.errors import ProcessingError, RegistryError
from logstate.contracts.records import Windowed
from logstate.contracts.serde import Serde
from logstate.contracts.stores import StoreSpec, ValueAndTimestamp
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    Processor,
    StreamsBuilder,
    key_value_store,
    lru_store,
    session_store,
    timestamped_key_value_store,
    versioned_store,
    window_store,
)

HOUR = timedelta(hours=1)


class Click(msgspec.Struct):
    page: int


def row(value: Any) -> ValueAndTimestamp[Any]:
    return ValueAndTimestamp(value, 5)


STORES: dict[str, StoreSpec] = {
    "key_value": key_value_store("s", str, str),
    "lru": lru_store("s", str, str, capacity=5),
    "rows": timestamped_key_value_store("s", str, str),
    "structs": timestamped_key_value_store("s", str, Click),
    "windows": window_store("s", str, str, size=HOUR, retention=HOUR),
    "window_rows": window_store("s", str, str, size=HOUR, retention=HOUR, timestamped=True),
    "sessions": session_store("s", str, str, retention=HOUR),
    "session_headers": session_store("s", str, str, retention=HOUR, headers=True),
    "versions": versioned_store("s", str, str, history=HOUR),
}

#: how a key is given to each kind of store
BY_KEY: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("key_value", lambda s, key: s.get(key)),
    ("key_value", lambda s, key: s.put(key, "x")),
    ("key_value", lambda s, key: s.delete(key)),
    ("lru", lambda s, key: s.get(key)),
    ("lru", lambda s, key: s.put(key, "x")),
    ("rows", lambda s, key: s.get(key)),
    ("rows", lambda s, key: s.put(key, row("x"))),
    ("rows", lambda s, key: s.put(key, None)),
    ("structs", lambda s, key: s.put(key, row(Click(1)))),
    ("windows", lambda s, key: s.fetch(key, 5)),
    ("windows", lambda s, key: s.put(key, "x", 5)),
    ("windows", lambda s, key: list(s.fetch_range(key, 0, 5))),
    ("window_rows", lambda s, key: s.fetch(key, 5)),
    ("window_rows", lambda s, key: s.put(key, row("x"), 5)),
    ("sessions", lambda s, key: list(s.find_sessions(key, 0, 5))),
    ("sessions", lambda s, key: s.put(Windowed(key, 0, 5), "x")),
    ("sessions", lambda s, key: s.remove(Windowed(key, 0, 5))),
    ("versions", lambda s, key: s.get(key)),
    ("versions", lambda s, key: s.get(key, 5)),
    ("versions", lambda s, key: s.put(key, "x", 5)),
    ("versions", lambda s, key: s.delete(key, 5)),
    ("versions", lambda s, key: list(s.versions(key))),
]
BY_BOUND: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("key_value", lambda s, key: list(s.range(key, None))),
    ("key_value", lambda s, key: list(s.range(None, key))),
    ("key_value", lambda s, key: list(s.prefix_scan(key))),
    ("windows", lambda s, key: list(s.fetch_key_range(key, None, 0, 5))),
]
BY_VALUE: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("key_value", lambda s, value: s.put("k", value)),
    ("lru", lambda s, value: s.put("k", value)),
    ("rows", lambda s, value: s.put("k", row(value))),
    ("structs", lambda s, value: s.put("k", row(value))),
    ("windows", lambda s, value: s.put("k", value, 5)),
    ("window_rows", lambda s, value: s.put("k", row(value), 5)),
    ("sessions", lambda s, value: s.put(Windowed("k", 0, 5), value)),
    ("session_headers", lambda s, value: s.put(Windowed("k", 0, 5), value)),
    ("versions", lambda s, value: s.put("k", value, 5)),
]


def refusal(spec: StoreSpec, use: Callable[[Any], Any], **settings: Any) -> ProcessingError:
    """What a processor that uses the store so is told."""

    class Uses(Processor[str, str, Any, Any]):
        def process(self, record: Any) -> None:
            use(self.context.store("s"))

    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).process(Uses, stores=spec, name="uses")
    with (
        TopologyTestDriver(builder.build(), **settings) as driver,
        pytest.raises(ProcessingError) as raised,
    ):
        driver.pipe("in", "k", "v")
    assert "test_unfit_store_parts.py" in (raised.value.function or "")
    assert raised.value.node == "uses"
    return raised.value


@pytest.mark.parametrize("logging", ["update", "commit"])
@pytest.mark.parametrize(("kind", "use"), BY_KEY)
def test_a_key_that_does_not_fit_names_the_store(
    kind: str, use: Callable[[Any, Any], Any], logging: str
) -> None:
    spec = STORES[kind]
    told = str(refusal(spec, lambda store: use(store, 5), changelog_writes=logging))
    assert "the key given to store 's' does not fit: a str is needed, found int" in told
    told = str(refusal(spec, lambda store: use(store, None), changelog_writes=logging))
    assert "store 's' was given None as key, and keys are never None" in told


@pytest.mark.parametrize(("kind", "use"), BY_BOUND)
def test_a_bound_that_does_not_fit_names_the_store(
    kind: str, use: Callable[[Any, Any], Any]
) -> None:
    told = str(refusal(STORES[kind], lambda store: use(store, 5)))
    assert "the key given to store 's' does not fit: a str is needed, found int" in told


@pytest.mark.parametrize("logging", ["update", "commit"])
@pytest.mark.parametrize(("kind", "use"), BY_VALUE)
def test_a_value_that_does_not_fit_names_the_store(
    kind: str, use: Callable[[Any, Any], Any], logging: str
) -> None:
    told = str(refusal(STORES[kind], lambda store: use(store, 5), changelog_writes=logging))
    assert "the value given to store 's' does not fit: " in told


def test_the_cause_and_the_traceback_of_a_serdes_own_error_stay() -> None:
    class Strict(Serde[Any]):
        def serializer(self, topic: str, is_key: bool) -> Any:
            def serialize(value: Any) -> bytes:
                try:
                    return bytes(int(value))
                except ValueError as error:
                    raise TypeError("no number") from error

            return serialize

        def deserializer(self, topic: str, is_key: bool) -> Any:
            return bytes.decode

        def describe(self) -> dict[str, Any]:
            return {"format": "strict", "schema": None}

    error = refusal(key_value_store("s", str, Strict()), lambda store: store.put("k", "x"))
    assert "the value given to store 's' does not fit: no number" in str(error)
    cause = error.__cause__
    assert isinstance(cause, TypeError)
    assert isinstance(cause.__cause__, ValueError)
    assert "in serialize" in (error.function or "")


def test_an_error_of_a_class_of_its_own_stays_what_it_is() -> None:
    class Away(Serde[Any]):
        def serializer(self, topic: str, is_key: bool) -> Any:
            def serialize(value: Any) -> bytes:
                raise RegistryError("the registry is away")

            return serialize

        def deserializer(self, topic: str, is_key: bool) -> Any:
            return bytes.decode

        def describe(self) -> dict[str, Any]:
            return {"format": "away", "schema": None}

    class Puts(Processor[str, str, Any, Any]):
        def process(self, record: Any) -> None:
            self.context.store("s").put("k", 5)

    builder = StreamsBuilder()
    stores = key_value_store("s", str, Away())
    builder.stream("in", key=str, value=str).process(Puts, stores=stores)
    driver = TopologyTestDriver(builder.build())
    with pytest.raises(RegistryError, match=r"^the registry is away$"):
        driver.pipe("in", "k", "v")
    driver.close()


@pytest.mark.parametrize("session", ["k", "kab", None, 5, ("k", 1)])
def test_a_session_store_says_that_it_wants_a_session(session: Any) -> None:
    for use in (lambda s: s.put(session, "x"), lambda s: s.remove(session)):
        told = str(refusal(STORES["sessions"], use))
        assert "session store 's' was given " in told
        assert "Give Windowed(key, start_ms, end_ms)" in told


def test_a_key_mapper_whose_key_the_global_table_cannot_have_is_named() -> None:
    def length(_key: str, value: str) -> int:
        return len(value)

    builder = StreamsBuilder()
    cities = builder.global_table("cities", key=str, value=str, store="cities")
    joined = builder.stream("in", key=str, value=str).join(
        cities, lambda value, city: city, key_mapper=length, value=str
    )
    joined.to("out")
    told = (
        r"the key mapper .*length at .*test_unfit_store_parts\.py:\d+ returned an invalid key of"
        " the global table: the key given to store 'cities' does not fit: a str is needed,"
        " found int"
    )
    driver = TopologyTestDriver(builder.build())
    with pytest.raises(ProcessingError, match=told):
        driver.pipe("in", "k", "v")
    driver.close()
