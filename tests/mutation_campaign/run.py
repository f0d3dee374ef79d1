"""A portion of mutated records through an application on a fake cluster."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta

from logstate.app.application import Application
from logstate.task.error_handlers import ErrorHandlers, dead_letter
from logstate.testing import FakeCluster
from tests.mutation_campaign.flow import DEAD, KINDS, topology
from tests.mutation_campaign.judges import judged
from tests.mutation_campaign.mutations import Sample, samples
from tests.patience import until

_ORIGIN = "__streams.errors.topic"
#: without one more record processed
_LIMIT_S = 120.0


@dataclass
class Tally:
    """What came of all records so far."""

    records: int = 0
    good: int = 0
    bad: int = 0
    #: first few differences, in words
    differences: list[str] = field(default_factory=list)

    def differs(self, what: str) -> None:
        """Note a difference."""
        self.differences.append(what)

    @property
    def summary(self) -> str:
        return (
            f"{self.records} records, {self.good} good, {self.bad} bad,"
            f" {len(self.differences)} wrong"
        )


def run_portion(seed: int, records: int, tally: Tally) -> None:
    """Mutate, process, compare; raises what stops the application, which nothing may."""
    rng = random.Random(seed)
    cluster = FakeCluster(
        {name: 1 for kind in KINDS for name in (kind, f"good-{kind}")} | {DEAD: 1}
    )
    sent = {kind: samples(kind, records // len(KINDS), rng) for kind in KINDS}
    for kind, portion in sent.items():
        for number, sample in enumerate(portion):
            cluster.produce(kind, sample.key, sample.value, timestamp=number + 1)
    with tempfile.TemporaryDirectory() as state_dir:
        app = Application(
            topology(),
            application_id="mutations",
            bootstrap="a-fake-cluster",
            state_dir=state_dir,
            commit_interval=timedelta(milliseconds=50),
            cluster=cluster,
            error_handlers=ErrorHandlers(deserialization=dead_letter, dead_letter_topic=DEAD),
        )
        with app:
            left = _unprocessed(app, cluster, records=sum(map(len, sent.values())))
            if app.is_alive and not left:
                _compare_counts(seed, app, sent["json"], tally)
    if left:
        tally.differs(
            f"seed {seed}: {left} records are left, none was processed in {_LIMIT_S:.0f} s"
        )
        return
    _compare(seed, cluster, sent, tally)


def _unprocessed(app: Application, cluster: FakeCluster, records: int) -> int:
    """Wait while records are processed; how many are left when none is any more."""

    def processed() -> int:
        return sum(cluster.committed_offset("mutations", kind) or 0 for kind in KINDS)

    before = -1
    while before < (now := processed()) < records:
        before = now
        cluster.wait_for(lambda: not app.is_alive or processed() > now, _LIMIT_S)
    return records - now


def _compare_counts(seed: int, app: Application, clicks: list[Sample], tally: Tally) -> None:
    wanted = Counter(
        sample.key.decode()
        for sample in clicks
        if sample.key is not None and sample.value is not None and judged("json", *sample)
    )
    store = app.store("clicks")

    def differing() -> set[tuple[str, int]]:
        return set(wanted.items()) ^ {(key, row.value) for key, row in store.all()}

    try:
        until(lambda: not differing())  # what is committed can be read a moment later
    except AssertionError:
        tally.differs(f"seed {seed}: counts differ: {differing()}")


def _compare(
    seed: int,
    cluster: FakeCluster,
    sent: dict[str, list[Sample]],
    tally: Tally,
) -> None:
    dead: dict[str, list[Sample]] = {kind: [] for kind in KINDS}
    for record in cluster.records(DEAD):
        origin = dict(record.headers() or ())[_ORIGIN]
        dead[(origin or b"").decode()].append(Sample(record.key(), record.value()))
    for kind, portion in sent.items():
        verdicts = [(sample, judged(kind, *sample)) for sample in portion]
        good = [(sample.key, text.encode()) for sample, text in verdicts if text is not None]
        bad = [sample for sample, text in verdicts if text is None]
        found = [(record.key(), record.value()) for record in cluster.records(f"good-{kind}")]
        tally.records += len(portion)
        tally.good += len(good)
        tally.bad += len(bad)
        if dead[kind] != bad:
            _explain(f"seed {seed}, dead letters of {kind}", bad, dead[kind], tally)
        if found != good:
            _explain(f"seed {seed}, good {kind}", good, found, tally)


def _explain(what: str, wanted: list[object], found: list[object], tally: Tally) -> None:
    """One line for each value that is on one side only."""
    missing, surplus = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
    for value in missing:
        tally.differs(f"{what}: missing {value!r:.300}")
    for value in surplus:
        tally.differs(f"{what}: not expected {value!r:.300}")
    if not missing and not surplus:
        tally.differs(f"{what}: the order differs")
