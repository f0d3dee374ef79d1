"""Sketches: within their bounds, exact while small, through merges, lost disks and versions."""

from __future__ import annotations

import base64
import math
import random
import struct
import sys
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from logstate.contracts.errors import TopologyError
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    ApproxCountDistinct,
    Quantile,
    SessionWindows,
    StreamsBuilder,
)

NUMBERS = st.lists(st.floats(-1e6, 1e6, allow_nan=False), max_size=40)

#: of 3.0, 1.0 and 2.0
_KLL = "BQEPAsgACAADAAAAAAAAAMgAAQDFAAAAAAAAAAAA8D8AAAAAAAAIQAAAAAAAAPA/AAAAAAAAAEAAAAAAAAAIQA=="


def itself(value: Any) -> Any:
    return value


def state_of(aggregate: Any, values: Any) -> Any:
    state = aggregate.initial()
    for value in values:
        state = aggregate.add(state, value)
    return state


def rank(values: list[float], q: float) -> float | None:
    place = max(1, math.ceil(q * len(values)))
    return sorted(values)[place - 1] if values else None


@pytest.mark.parametrize("q", [0, 0.01, 0.5, 0.75, 0.99, 1])
@given(values=NUMBERS, split=st.integers(0, 40))
def test_a_small_quantile_is_exact_also_of_merged_sessions(
    q: float, values: list[float], split: int
) -> None:
    quantile: Quantile[float] = Quantile(itself, q)
    first, second = state_of(quantile, values[:split]), state_of(quantile, values[split:])
    assert quantile.result(state_of(quantile, values)) == rank(values, q)
    assert quantile.result(quantile.merge(first, second)) == rank(values, q)


@pytest.mark.parametrize("k", [100, 200, 1_000])
@pytest.mark.parametrize("q", [0.01, 0.5, 0.99])
def test_a_quantile_of_many_values_is_within_its_bounds(k: int, q: float) -> None:
    drawn = random.Random(k)
    values = [drawn.gauss(0, 100) for _ in range(20_000)]
    quantile: Quantile[float] = Quantile(itself, q, k=k)
    merged = quantile.merge(
        *(state_of(quantile, part) for part in (values[:7_000], values[7_000:]))
    )
    # 3 times the bound of 99 of 100 runs, as a test has to hold in each of them.
    allowed = 3 * quantile._sketch.get_normalized_rank_error(k, False)
    for state in (merged, state_of(quantile, values)):
        found = sum(value <= state[0] for value in values) / len(values)
        assert abs(found - q) <= allowed


def test_the_extremes_of_many_values_are_exact() -> None:
    values = [float((one * 7_919) % 10_007) for one in range(10_007)]
    assert state_of(Quantile(itself, 0), values)[0] == 0
    assert state_of(Quantile(itself, 1), values)[0] == 10_006


def _bits(number: float) -> int:
    found: int = struct.unpack("<q", struct.pack("<d", number))[0]
    return found


def test_an_integer_and_a_fraction_of_the_same_bits_are_one_value() -> None:
    distinct: ApproxCountDistinct[Any] = ApproxCountDistinct(itself)
    assert _bits(5e-324) == 1
    assert distinct.result(state_of(distinct, [1, 5e-324])) == 1
    assert distinct.result(state_of(distinct, [_bits(0.5), 0.5])) == 1


@given(
    values=st.lists(
        st.integers()
        | st.text(max_size=3)
        | st.booleans()
        | st.floats(allow_nan=False)
        | st.binary(max_size=2)
        | st.tuples(st.integers(0, 3), st.text(max_size=1)),
        max_size=80,
    ),
    split=st.integers(0, 80),
)
def test_few_distinct_values_are_exact_also_of_merged_sessions(
    values: list[Any], split: int
) -> None:
    distinct: ApproxCountDistinct[Any] = ApproxCountDistinct(itself)
    fractions = [v for v in values if isinstance(v, float) and not v.is_integer()]
    assume(set(values).isdisjoint(map(_bits, fractions)))
    first, second = state_of(distinct, values[:split]), state_of(distinct, values[split:])
    expected = len(set(values))
    assert distinct.result(state_of(distinct, values)) == expected
    assert distinct.result(distinct.merge(first, second)) == expected


@pytest.mark.parametrize("lg_k", [8, 12, 14])
def test_many_distinct_values_are_within_their_bounds(lg_k: int) -> None:
    distinct: ApproxCountDistinct[int] = ApproxCountDistinct(itself, lg_k=lg_k)
    parts = [range(30_000), range(20_000, 50_000)]
    merged = distinct.merge(*(state_of(distinct, part) for part in parts))
    every = state_of(distinct, range(50_000))
    for state, is_merged in ((every, False), (merged, True)):
        allowed = abs(distinct._sketch.get_rel_err(False, is_merged, lg_k, 3))
        assert abs(state[0] - 50_000) <= allowed * 50_000


def test_rows_have_the_sizes_that_the_documentation_states() -> None:
    def size(aggregate: Any, count: int) -> int:
        return len(base64.b64encode(state_of(aggregate, range(count))[1]))

    assert size(Quantile(itself, 0.5), 200) <= 2_200
    assert size(Quantile(itself, 0.5), 100_000) <= 6_800
    assert size(ApproxCountDistinct(itself), 100) <= 560
    assert size(ApproxCountDistinct(itself), 100_000) <= 2_900


def test_an_earlier_version_reads_the_same_sketches() -> None:
    stored = [
        (
            Quantile(itself, 0.5),
            [3.0, 1.0, 2.0],
            _KLL,
        ),
        (ApproxCountDistinct(itself), [1, "a", 2.5, b"x"], "AgEHDAMIBAAr8vsGL4I7BEqpKBDrT7sG"),
    ]
    for aggregate, values, text in stored:
        one: Any = aggregate
        state = state_of(one, values)
        assert base64.b64encode(state[1]).decode() == text
        assert one.merge((None, base64.b64decode(text)), state_of(one, values[:1]))[0] in (2.0, 4)


def test_an_integral_float_and_a_bool_are_the_integer() -> None:
    assert state_of(ApproxCountDistinct(itself), [1, 1.0, True, -0.0, 0, 2.0**70, 2**70])[0] == 3


def test_nulls_and_nan_are_ignored_and_nothing_is_lost_with_the_disk() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=dict).group_by_key()
    table = grouped.agg(
        half=Quantile(lambda row: row["x"], 0.5),
        users=ApproxCountDistinct(lambda row: row["who"]),
        store="s",
    )
    table.to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        for x, who in [(None, None), (4, "a"), (2, "b"), (None, "a"), (3, None)]:
            driver.pipe("in", "k", {"x": x, "who": who})
            driver.crash(loses_disk=True)
        found = [(row["half"], row["users"]) for _, row in driver.read("out", value=dict)]
    assert found == [(None, 0), (4, 1), (2, 2), (2, 2), (3, 2)]
    nan = state_of(Quantile(itself, 0.5), [float("nan")])
    assert nan == (None, None)


def test_sessions_that_merge_have_the_sketches_of_both() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    gap = SessionWindows(gap=timedelta(milliseconds=5), grace=timedelta(milliseconds=50))
    sessions = grouped.windowed_by(gap).agg(
        high=Quantile(itself, 0.9), users=ApproxCountDistinct(itself), store="s"
    )
    sessions.to_stream(lambda window, _: window.key, key=str).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", 1, 0), ("a", 9, 10), ("a", 1, 5)])
        last = driver.read("out", value=dict)[-1]
    assert last == ("a", {"high": 9, "users": 2})


@pytest.mark.parametrize(
    ("aggregate", "alternative"),
    [(Quantile(itself, 0.9), r"x=Collect\("), (ApproxCountDistinct(itself), r"x=CountDistinct\(")],
)
def test_a_table_names_what_to_use_instead(aggregate: Any, alternative: str) -> None:
    table = StreamsBuilder().table("in", key=str, value=float, store="t")
    grouped = table.group_by(lambda key, value: (key, value), key=str, value=float)
    with pytest.raises(TopologyError, match=alternative):
        grouped.agg(x=aggregate, store="s")


@pytest.mark.parametrize("q", [-0.1, 1.1, True, "0.5", float("nan")])
def test_a_quantile_out_of_range_is_refused(q: Any) -> None:
    with pytest.raises(TopologyError, match="q of Quantile must be a number from 0 to 1"):
        Quantile(itself, q)


def test_sizes_out_of_range_are_refused() -> None:
    with pytest.raises(TopologyError, match="k of Quantile must be an integer from 8 to 65535"):
        Quantile(itself, 0.5, k=7)
    with pytest.raises(
        TopologyError, match=r"lg_k of .* must be an integer from 7 to 21, found 22"
    ):
        ApproxCountDistinct(itself, lg_k=22)


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(TopologyError, match=r"pip install 'logstate\[sketches\]'"):
        Quantile(itself, 0.5)
