"""Whoever changes the named cuts of an application, on a fake cluster, one call at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from threading import Semaphore, Thread
from typing import Any

from logstate.changelog.cuts.cut_catalog import CutCatalog, ids_of
from logstate.changelog.cuts.cut_value import CutValue
from logstate.changelog.cuts.named_cut import NamedCut, StoreCopy, parse_named_cut
from logstate.contracts.clients import NewTopic
from logstate.contracts.clock import ManualClock
from logstate.contracts.errors import LogstateError, RestoreError
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.contracts.topic_names import cut_copies, cut_copy_topic, named_cuts_topic
from logstate.testing.fake.cluster import FakeCluster
from tests.patience import PATIENCE_S

SHOP = "shop"
#: so many records has each copy
RECORDS = 2


class Bench:
    """A cluster with an application's cuts."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_000)
        self.cluster = FakeCluster(clock=self.clock)
        self.shelf = self.shelf_of(lambda: None)

    def shelf_of(self, pause: Callable[[], None]) -> CutCatalog:
        """One whose every call waits for its turn first."""
        cluster = self.cluster
        return CutCatalog(
            SHOP,
            Stepped(cluster.admin(), pause),  # type: ignore[arg-type]
            Stepped(cluster.plain_producer(), pause),  # type: ignore[arg-type]
            lambda: (pause(), self.cuts())[1],
            self.clock,
            lambda seconds: self.clock.advance(int(seconds * 1_000)),
        )

    def cuts(self) -> Mapping[str, NamedCut]:
        topic = named_cuts_topic(SHOP)
        there = self.cluster.records(topic) if topic in self.cluster.topics else []
        latest = {(one.key() or b"").decode(): one.value() for one in there}
        return {name: parse_named_cut(value) for name, value in latest.items() if value}

    def topics_of(self, name: str) -> list[str]:
        return sorted(t for t in self.cluster.topics if t.startswith(cut_copies(SHOP, name)))

    def makers_of(self, name: str) -> set[bytes]:
        """Who wrote what the cut has; AssertionError where it is not whole, or has other topics."""
        cut = self.cuts()[name]
        found: set[bytes] = set()
        for kept in cut.stores.values():
            assert self.cluster.topic(kept.topic).topic_id == kept.topic_id
            values = [record.value() or b"" for record in self.cluster.records(kept.topic)]
            assert len(values) >= kept.ends[0]  # what lies behind is not read
            found.update(values[: kept.ends[0]])
        assert self.topics_of(name) == sorted(ids_of(cut))
        return found


def create(shelf: CutCatalog, name: str, maker: bytes, expires_at_ms: int | None = None) -> None:
    """Make a cut of two stores, as ``create_cut`` does: every record has the maker's name."""
    shelf.delete_expired()
    topics = [cut_copy_topic(SHOP, name, store) for store in ("spend", "visits")]
    with shelf.making(name) as making:
        ids = making.create_topics([NewTopic(topic, 1, -1, {}) for topic in topics])
        for topic in topics:
            shelf.producer.produce([ProducedRecord(topic, 0, b"key", maker, 1)] * RECORDS)
        shelf.producer.flush()
        logs = [TopicPartition(topic, 0) for topic in topics]
        if set(shelf.admin.end_offsets(logs).values()) != {RECORDS}:
            raise RestoreError("somebody else writes to it")
        stores = {topic: StoreCopy({}, topic, ids[topic], {0: RECORDS}) for topic in topics}
        making.complete(NamedCut(name, 1_000, expires_at_ms, CutValue({}), stores))


class Stepped:
    """A client whose every call waits for its turn first."""

    def __init__(self, client: object, pause: Callable[[], None]) -> None:
        self._client = client
        self._pause = pause

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        def call(*arguments: Any, **options: Any) -> Any:
            self._pause()
            return method(*arguments, **options)

        return call


class Actor:
    """Somebody who does something with a shelf, one call after the other, when told to."""

    def __init__(self, bench: Bench, act: Callable[[CutCatalog], None]) -> None:
        #: None: it was done
        self.error: BaseException | None = None
        self.steps = 0
        self._is_over = False
        self._go, self._waits = Semaphore(0), Semaphore(0)
        self._act = act
        self._shelf = bench.shelf_of(self._pause)
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether it succeeded; raises what is no refusal."""
        if self.error is not None and not isinstance(self.error, LogstateError):
            raise self.error
        return self.error is None

    def step(self) -> bool:
        """Make the next call, and all that follows it before the one after; False: it is over."""
        if self._is_over:
            return False
        self.steps += 1
        self._go.release()
        assert self._waits.acquire(timeout=PATIENCE_S)
        return not self._is_over

    def finish(self) -> None:
        while self.step():
            """Another one."""
        self._thread.join(PATIENCE_S)

    def _pause(self) -> None:
        self._waits.release()
        assert self._go.acquire(timeout=PATIENCE_S)

    def _run(self) -> None:
        try:
            assert self._go.acquire(timeout=PATIENCE_S)
            self._act(self._shelf)
        except BaseException as error:  # noqa: BLE001  told by is_done
            self.error = error
        finally:
            self._is_over = True
            self._waits.release()


def act_by_turns(actors: list[Actor], order: Iterable[int]) -> None:
    """A step of each that the order names; then each goes on to its end, the first one first."""
    for number in order:
        actors[number].step()
    for actor in actors:
        actor.finish()


def steps_of(prepare: Callable[[], Bench], act: Callable[[CutCatalog], None]) -> int:
    """How many steps it takes where nobody else does anything."""
    alone = Actor(prepare(), act)
    alone.finish()
    assert alone.is_done
    return alone.steps
