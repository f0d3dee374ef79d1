"""Keys of ``ordered(...)`` are in the order of their values, wherever they are read."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate import SerdeError, StreamsBuilder, Windowed, ordered
from logstate.admin.described_encoders import encoder
from logstate.changelog.reading.types import column_type
from logstate.contracts.errors import ConfigError
from logstate.contracts.stores import StoreArgumentError
from logstate.generated.draw import Draw
from logstate.generated.objects import maker_of
from logstate.http.keys import key_of
from logstate.serdes import OrderedSerde, json_of, windowed
from logstate.serdes.described import readable_decoder
from logstate.serdes.described_keys import lookup_key
from logstate.serdes.typed_values import TypedValues
from logstate.testing import TopologyTestDriver
from logstate.topology.plan.key_bytes import key_bytes_agree


class Place(NamedTuple):
    city: str
    floor: int


PARTS: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(st.sampled_from("\x00\x01 aAzé\uffff\U0001f600"), max_size=4) | st.text(),
    bytes: st.binary(max_size=4) | st.lists(st.sampled_from([0, 1, 255]), max_size=4).map(bytes),
    int: st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    datetime: st.datetimes(
        timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7, minutes=30))]),
        min_value=datetime(2, 1, 1),  # noqa: DTZ001  the strategy adds the time zone
        max_value=datetime(9998, 1, 1),  # noqa: DTZ001
    ),
    date: st.dates(),
    UUID: st.uuids(),
}
SHAPES = [*((one,) for one in PARTS), (str, int), (bytes, bytes), (float, str, bool), (int, date)]


def write(serde: OrderedSerde[Any], key: Any) -> bytes:
    return serde.serializer("t", True)(key)


def read(serde: OrderedSerde[Any], data: bytes) -> Any:
    return serde.deserializer("t", True)(data)


def order(key: Any) -> Any:
    """Return the sort key in Python: text is sorted by code points, and -0.0 before 0.0."""
    if isinstance(key, tuple):
        return tuple(map(order, key))
    return (key, str(key)[:1] != "-") if isinstance(key, float) else key


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(t.__name__ for t in shape))
@given(data=st.data())
def test_bytes_have_the_order_of_the_values(shape: tuple[Any, ...], data: st.DataObject) -> None:
    serde = ordered(*shape)
    strategy = PARTS[shape[0]] if len(shape) == 1 else st.tuples(*(PARTS[one] for one in shape))
    first, second = data.draw(strategy), data.draw(strategy)
    pair = write(serde, first), write(serde, second)
    assert [read(serde, one) for one in pair] == [first, second]
    assert (pair[0] < pair[1]) == (order(first) < order(second))
    if len(shape) > 1:
        prefix = serde.prefix_bytes(first[:1])
        assert prefix is not None
        assert pair[0].startswith(prefix)
        assert pair[1].startswith(prefix) == (order(first[:1]) == order(second[:1]))


def rows(key: Any, keys: list[Any]) -> TopologyTestDriver:
    builder = StreamsBuilder()
    builder.table("in", key=key, value=str, store="t")
    driver = TopologyTestDriver(builder.build())
    for one in keys:
        driver.pipe("in", one, "x", timestamp=1)
    return driver


KEYS = [("a", 0), ("a", 5), ("a", 20), ("a", 100), ("b", -1)]


def test_a_range_has_the_rows_between_two_values_and_warns_of_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shuffled = random.Random(1).sample(KEYS, len(KEYS))
    with rows(ordered(str, int), shuffled) as driver:
        store = driver.store("t")
        assert [key for key, _ in store.all()] == KEYS
        assert [key for key, _ in store.range(("a", 0), ("a", 100))] == KEYS[:4]
        assert [key for key, _ in store.reverse_range(None, ("a", 5))] == [KEYS[1], KEYS[0]]
        assert [key for key, _ in store.range(("a", 6), None)] == KEYS[2:]
        assert [key for key, _ in store.prefix_scan(("a",))] == KEYS[:4]
        assert [key for key, _ in store.prefix_scan(())] == KEYS
        assert [key for key, _ in store.prefix_scan(("b", -1))] == KEYS[4:]
        assert store.get(("a", 20)).value == "x"
    assert caplog.messages == []


def test_a_range_of_tuples_in_json_warns_that_rows_are_in_another_order(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with rows(json_of(tuple[str, int]), KEYS) as driver:
        assert [key for key, _ in driver.store("t").range(("a", 0), ("a", 100))] != KEYS[:4]
    (line,) = caplog.messages
    assert line.startswith("store 't', keys from ('a', 0) to ('a', 100): rows lie in the order of")
    assert "serdes.ordered(...)" in line


@pytest.mark.parametrize("prefix", [("v001", 1, 2), (1,), "v001", 5])
def test_a_prefix_of_another_shape_is_refused(prefix: Any) -> None:
    with (
        rows(ordered(str, int), KEYS) as driver,
        pytest.raises(
            StoreArgumentError, match=r"store 't': prefix_scan\(\): .*first parts of a k"
        ),
    ):
        driver.store("t").prefix_scan(prefix)


def test_keys_are_named_tuples_where_they_are_declared_so() -> None:
    with rows(ordered(Place), [Place("rome", 2), Place("oslo", -1)]) as driver:
        (first, _), _ = driver.store("t").all()
    assert first == Place("oslo", -1)
    assert isinstance(first, Place)


@pytest.mark.parametrize(
    ("serde", "key", "said"),
    [
        (ordered(int), True, "int here, found bool"),
        (ordered(int), 2**63, "numbers of 64 bits"),
        (ordered(float), float("nan"), "float other than NaN"),
        (ordered(str), None, "str here, found NoneType"),
        (ordered(bytes), "a", "bytes here, found str"),
        (ordered(bool), 1, "bool here, found int"),
        (ordered(datetime), datetime(2026, 1, 1), "datetime with a time zone"),  # noqa: DTZ001
        (ordered(date), datetime(2026, 1, 1, tzinfo=UTC), "date here, found datetime"),
        (ordered(UUID), "12", "UUID here, found str"),
        (ordered(str, int), ("a",), r"keys are \(str, int\), found tuple of 1 parts"),
        (ordered(str, int), "ab", r"keys are \(str, int\), found str"),
    ],
)
def test_a_key_of_another_type_is_refused(serde: Any, key: Any, said: str) -> None:
    with pytest.raises(SerdeError, match=said):
        write(serde, key)


@pytest.mark.parametrize(
    ("serde", "data", "said"),
    [
        (ordered(str), b"ada", "no end of the text or bytes that begin at byte 0"),
        (ordered(int), bytes(7), "ends within the 8 bytes from byte 0"),
        (ordered(float), bytes(9), "1 bytes after its last part"),
        (ordered(bool), b"\x02", "no 0 or 1 at byte 0"),
        (ordered(UUID), bytes(3), "within the 16 bytes"),
    ],
)
def test_bytes_that_are_no_key_are_refused(serde: Any, data: bytes, said: str) -> None:
    with pytest.raises(SerdeError, match=said):
        read(serde, data)


@pytest.mark.parametrize("given", [(), (dict,), (str, list), (None,), ("str",), (tuple[str, Any],)])
def test_a_type_without_an_order_is_refused(given: tuple[Any, ...]) -> None:
    with pytest.raises(SerdeError, match=r"ordered\(\)"):
        ordered(*given)


def everywhere() -> Iterator[tuple[OrderedSerde[Any], Any, str, Any, Any]]:
    """Serde, key, its text, and its value in a column of Arrow and in JSON."""
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    uuid = UUID(int=7)
    yield ordered(str), "ada", "ada", "ada", "ada"
    yield ordered(int), -7, "-7", -7, -7
    yield ordered(datetime), at, "2026-01-31T12:00:00Z", at, "2026-01-31T12:00:00Z"
    yield ordered(UUID), uuid, str(uuid), str(uuid), str(uuid)
    yield ordered(str, int), ("a", 5), '["a",5]', {"_1": "a", "_2": 5}, ["a", 5]
    yield ordered(Place), Place("a", 5), '["a",5]', {"city": "a", "floor": 5}, ["a", 5]


@pytest.mark.parametrize(("serde", "key", "text", "column", "data"), [*everywhere()])
def test_every_reader_has_the_key(
    serde: OrderedSerde[Any], key: Any, text: str, column: Any, data: Any
) -> None:
    described, written = serde.describe(), write(serde, key)
    assert key_of(text, serde, "t", is_base64=False) == key
    assert lookup_key(text, described).data == written
    assert TypedValues(serde, "t", is_key=True).from_text(text) == written
    assert TypedValues(serde, "t", is_key=True).from_data(data) == written
    assert encoder(described, is_key=True)(data) == written
    assert readable_decoder(described)(written) == data
    found = column_type(described)
    import pyarrow as pa

    assert found.fill(pa.array([written, None])).to_pylist() == [column, None]
    assert read(serde, write(serde, maker_of(serde)(Draw(1, 1)))) is not None
    assert key_bytes_agree(described, {**described, "fields": ["other", "names"]}) is True
    assert key_bytes_agree(described, {"format": "string"}) is False
    assert ordered(serde.types[0]) == ordered(serde.types[0])
    inside = windowed(serde, 10)
    window = Windowed(key, 20, 30)
    assert inside.deserializer("t", True)(inside.serializer("t", True)(window)) == window


def test_a_text_that_is_no_key_is_refused_with_an_example() -> None:
    with pytest.raises(ConfigError, match=r"the keys are \(str, int\): give JSON, such as .*42"):
        lookup_key("a", ordered(str, int).describe())


def test_a_store_of_ordered_keys_is_restored(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.table("in", key=ordered(str, int), value=str, store="t")
    topology = builder.build()
    with TopologyTestDriver(topology, state_dir=tmp_path) as driver:
        for key in KEYS:
            driver.pipe("in", key, "x", timestamp=1)
    with TopologyTestDriver(topology, state_dir=tmp_path) as driver:
        assert [key for key, _ in driver.store("t").range(("a", 1), ("b", 0))] == KEYS[1:]
