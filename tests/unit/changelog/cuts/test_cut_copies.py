"""Which cut is kept, where records are compacted while they are copied."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from logstate.changelog.cuts.cut_copies import CutCopies
from logstate.changelog.cuts.cut_value import CutValue
from logstate.changelog.cuts.logs import ChangelogSource
from logstate.contracts.records import ProducedRecord
from logstate.kafka import log_reader
from logstate.testing import FakeCluster
from tests.campaigns.simulation.fake_logs import FakeLogReader

LOG, COPY = "shop-counts-changelog", "copy"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A changelog whose first two records were superseded by the next two, and are gone."""
    made = FakeCluster({COPY: 1})
    made.create_topic(LOG, 1, {"cleanup.policy": "compact"})
    for value in (b"1", b"2"):
        for key in (b"ada", b"bob"):
            made.produce(LOG, key, value, timestamp=1)
    made.clean(LOG)
    reader = FakeLogReader(made, made.process("cuts"), lambda _: None)
    for name in ("log_bounds", "read_partition"):
        monkeypatch.setattr(log_reader, name, getattr(reader, name))
    return made


def kept(cluster: FakeCluster, *ends: int) -> tuple[int, dict[bytes | None, bytes | None]]:
    """Where the cut ends that is kept of those, each told once, and the rows of its copy."""
    told: Iterator[int] = iter(ends)
    source = ChangelogSource(LOG, cluster.topic(LOG).topic_id, 1, {"name": "counts"})
    copies = CutCopies({}, cluster.plain_producer(), [source], {LOG: COPY})
    cut = copies.follow(lambda: CutValue({LOG: {0: next(told)}}))
    rows = {record.key(): record.value() for record in cluster.records(COPY)}
    return cut.positions[LOG][0], rows


def test_a_cut_that_ends_before_what_replaced_its_records_is_not_kept(
    cluster: FakeCluster,
) -> None:
    """The newest commit that a coordinator tells may be the same one again."""
    assert kept(cluster, 2, 2, 4, 4) == (4, {b"ada": b"2", b"bob": b"2"})


def test_what_was_aborted_behind_a_cut_is_not_waited_for(cluster: FakeCluster) -> None:
    producer = cluster.transactional_producer("shop-0")
    producer.init_transactions()
    producer.begin()
    producer.produce([ProducedRecord(LOG, 0, b"ada", b"3", 1)] * 3)
    producer.abort()

    assert kept(cluster, 4, 4, 4) == (4, {b"ada": b"2", b"bob": b"2"})
