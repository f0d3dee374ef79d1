"""A running application gives a name to its newest cut."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Barrier

import pytest

from logstate.changelog.cuts.named_cuts import create_cut, delete_cut, incomplete_cuts, list_cuts
from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import ConfigError
from logstate.contracts.topic_names import cut_claim_topic, cut_copies
from logstate.kafka.cluster import KafkaCluster
from tests.broker.test_store_read import EXPECTED, Counter, rows_or_none
from tests.patience import PATIENCE_S, until


def test_an_application_keeps_a_cut_and_goes_on(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    made = Counter(bootstrap, unique("cuts"), tmp_path)

    def counted() -> int:
        return sum(row[1] for row in rows_or_none(made, "counts"))

    with made.runs() as app:
        until(lambda: counted() == 5)
        named = app.create_cut("before", stores=["counts"], keep=timedelta(days=1))
        made.send("clicks", 0, [("ada", 9, 9_500)])
        until(lambda: counted() == 6)

        with pytest.raises(ConfigError, match="before"):
            app.create_cut("before")
        with pytest.raises(ConfigError, match="nobodys"):
            app.create_cut("after", stores=["nobodys"])

    assert (named.name, list(named.stores)) == ("before", ["counts"])
    assert [one.name for one in list_cuts(bootstrap, made.name)] == ["before"]
    assert made.rows("counts", cut="before") == EXPECTED["counts"]
    assert made.rows("counts") != EXPECTED["counts"]
    with pytest.raises(ConfigError, match="sessions"):
        made.rows("sessions", cut="before")
    one_of_two_at_the_same_moment_makes_a_cut(made)


def one_of_two_at_the_same_moment_makes_a_cut(made: Counter) -> None:
    together = Barrier(2)

    def create(_: int) -> ConfigError | None:
        together.wait(PATIENCE_S)
        try:
            create_cut(made.bootstrap, made.name, "both")
        except ConfigError as refused:
            return refused
        return None

    with ThreadPoolExecutor(2) as pool:
        (refused,) = filter(None, pool.map(create, range(2)))
    assert "'both'" in str(refused)
    assert made.rows("counts", cut="both") == made.rows("counts")
    admin = KafkaCluster(made.bootstrap).admin()
    (stores,) = [cut.stores for cut in list_cuts(made.bootstrap, made.name) if cut.name == "both"]
    beginning = cut_copies(made.name, "both")
    claim = cut_claim_topic(made.name, "both")
    until(lambda: len(admin.describe_topics([], beginning)) == len(stores))
    admin.create_topics([NewTopic(claim, 1, 1, {})])  # as of one that died when it was complete
    delete_cut(made.bootstrap, made.name, "both")
    until(lambda: not admin.describe_topics([], beginning))
    admin.create_topics([NewTopic(claim, 1, 1, {})])  # as of one that died when it began
    with pytest.raises(ConfigError, match="is being made by another process"):
        create_cut(made.bootstrap, made.name, "both")
    delete_cut(made.bootstrap, made.name, "both")
    assert incomplete_cuts(made.bootstrap, made.name) == []
    admin.close()
