"""Which rows of a batch a store takes, and which are too old for it."""

from __future__ import annotations

from typing import Any

from logstate import serdes
from logstate.admin.backfill import Filling
from logstate.contracts.records import ProducedFields
from logstate.contracts.stores import StoreSpec
from tests.unit.changelog.store_bench import StoreBench

HOUR, DAY, NOW = 3_600_000, 86_400_000, 1_700_000_000_000
ENTRY = {
    "kind": "versioned",
    "key": {"format": "string"},
    "value": {"format": "int64"},
    "history_ms": HOUR,
    "partitions": 1,
    "changelog_topic": "shop-rates-changelog",
    "source_topics": ["orders"],
    "sub_topology": 0,
}


class Stopped:
    """An application that has run up to now, of which nothing is asked but its manifest."""

    application_id = "shop"

    def stored(self) -> tuple[dict[str, Any], dict[bytes, bytes]]:
        return {"application_id": "shop", "stores": {"rates": ENTRY}}, {}


def written(*rows: tuple[str, int, int]) -> tuple[list[ProducedFields], int]:
    """What goes to the changelog of a store whose clock is now, and how many rows do not."""
    application: Any = Stopped()
    filling = Filling(application, "rates", "batch")
    records = filling.logged({"key": k, "value": v, "valid_from": at} for k, v, at in rows)
    batches = list(filling._batches(records, {0: {"store:rates": NOW}}))
    return [one for batch in batches for one in batch], filling._expired


def test_a_version_from_before_the_history_is_counted_as_expired() -> None:
    produced, expired = written(("usd", 7, NOW - DAY), ("gbp", 8, NOW - HOUR), ("chf", 9, NOW))

    assert ([key for _, _, key, *_ in produced], expired) == ([b"gbp", b"chf"], 1)


def test_every_version_that_is_counted_as_written_is_restored() -> None:
    produced, _ = written(("usd", 7, NOW - DAY), ("gbp", 8, NOW - HOUR), ("chf", 9, NOW))
    bench = StoreBench(
        StoreSpec("rates", "versioned", serdes.string, serdes.int64, history_ms=HOUR)
    )
    bench.store.put("eur", 1, NOW)
    bench.commit()
    log = [(one.key, one.value, one.timestamp, None) for one in bench.log]
    log += [(key, value, time_ms, None) for _, _, key, value, time_ms, _ in produced]

    again = StoreBench(bench.spec)
    again.state.restore("rates", log, len(log))

    found = {key: again.store.get(key.decode()) for _, _, key, *_ in produced}
    assert {key: row and row.value for key, row in found.items()} == {b"gbp": 8, b"chf": 9}
