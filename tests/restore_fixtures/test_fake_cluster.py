"""The restore fixtures on the fake cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.restore_fixtures.bench import Bench
from tests.restore_fixtures.cases import CASES, TWO_PARTITIONS
from tests.restore_fixtures.world import FakeWorld


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_restore_survives_this_log(case: Callable[[Bench], None], tmp_path: Path) -> None:
    bench = Bench(FakeWorld(), tmp_path, partitions=2 if case in TWO_PARTITIONS else 1)
    try:
        case(bench)
    finally:
        bench.close()
