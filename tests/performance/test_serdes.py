"""The command that measures serdes measures every one of them."""

from tests.performance.serdes import measure, table


def test_every_serde_is_measured_and_has_a_line() -> None:
    costs = measure(10, rounds=1)
    assert len(costs) == 10
    assert all(cost.encode_us > 0 and cost.decode_us > 0 for cost in costs)
    assert table(costs).count("\n") == 11
