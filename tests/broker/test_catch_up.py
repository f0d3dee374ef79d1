"""The wait for the results of everything that the inputs contain, on a real broker."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer

from logstate import Application, ApplicationState
from tests.broker.counting_app import topology
from tests.broker.raw_topic import create_topic
from tests.patience import PATIENCE_S, until

LONG = timedelta(seconds=PATIENCE_S)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_stores_have_what_was_committed_before_the_call(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path, workers: int
) -> None:
    prefix = unique("catch-up")
    for name in ("clicks", "per-user", "per-page"):
        create_topic(bootstrap, f"{prefix}-{name}", partitions=2)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{prefix}-clicks"})
    producer.init_transactions()

    def click(then: str, *pages: str) -> None:
        producer.begin_transaction()
        for page in pages:
            producer.produce(f"{prefix}-clicks", page, key=f"user-{page}")
        producer.flush()
        getattr(producer, then)()

    click("commit_transaction", "a", "b", "c")
    with Application(
        topology(prefix),
        application_id=prefix,
        bootstrap=bootstrap,
        state_dir=tmp_path,
        workers=workers,
    ) as app:
        app.wait_until_caught_up(LONG)
        click("commit_transaction", "a", "b")
        click("abort_transaction", "a", "d")
        app.wait_until_caught_up(LONG)
        expected = {"a": 2, "b": 2, "c": 1}
        assert {key: row.value for key, row in app.store("per-page").all()} == expected
        app.wait_until_caught_up(LONG)  # nothing is left but markers
        app.pause()
        until(lambda: app.state is ApplicationState.PAUSED)
        click("commit_transaction", "a")
        with pytest.raises(TimeoutError, match=rf"{prefix}-clicks-\d \(task 0_\d\): lag \d+, at"):
            app.wait_until_caught_up(timedelta(seconds=1))
