"""Global tables: read whole before anything runs, then followed, by every instance."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from logstate.contracts.clients import TopicDescription
from logstate.contracts.clock import ManualClock
from logstate.contracts.errors import RetriableError, StoreUnavailableError, TopicsChangedError
from logstate.contracts.partitioner import StorePlace
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.queries.global_stores import GlobalStores
from logstate.queries.queries import QueryableStore
from logstate.queries.reader import _FIRST_VIEW_S, LocalStores
from logstate.testing import FakeCluster, Fault
from logstate.topics.bound_plan import bind
from logstate.topology import StreamsBuilder
from tests.unit.logstate.commit.step_recorder import StepRecorder
from tests.unit.logstate.task.task_bench import topology_of
from tests.unit.logstate.worker.worker_rig import cluster_of

NAMES_0 = TopicPartition("names", 0)


def with_names(builder: StreamsBuilder) -> None:
    names = builder.global_table("names", key=str, value=str, store="names")
    stream = builder.stream("in", key=str, value=str)
    joined = stream.join(names, lambda a, b: a + b, key_mapper=lambda key, value: key)
    joined.to("out", value=str)


TOPOLOGY = topology_of(with_names)
NUMBER = TOPOLOGY.global_sub_topologies[0].id
SPEC = TOPOLOGY.global_stores["names"]


class GlobalRig:
    """A cluster with a global topic of two partitions."""

    def __init__(self, **options: Any) -> None:
        self.cluster: FakeCluster = cluster_of({"names": 2, "in": 1, "out": 1}, **options)
        self.recorder = StepRecorder()
        self.stores = self.fresh()

    def topology(self, builder: StreamsBuilder) -> None:
        with_names(builder)

    def fresh(self) -> GlobalStores:
        counts = {"names": 2, "in": 1}
        existing = {name: TopicDescription("id", count) for name, count in counts.items()}
        plan = bind(topology_of(self.topology), "app", existing)
        return GlobalStores(
            plan.application_id, plan.global_inputs(), self.cluster, self.cluster.clock
        )

    def name(self, key: str, value: str | None, partition: int = 0) -> None:
        data = None if value is None else value.encode()
        self.cluster.produce("names", key.encode(), data, timestamp=5, partition=partition)

    def bootstrap(self) -> None:
        self.recorder.run(self.stores.bootstrap(self.cluster.admin()))

    def poll(self) -> None:
        self.recorder.run(self.stores.poll())

    def rows(self) -> dict[str, str]:
        return {key: row.value for key, row in self.stores.stores["names"].all()}


@pytest.fixture
def rig() -> GlobalRig:
    return GlobalRig()


def test_all_partitions_are_read_whole_before_the_start(rig: GlobalRig) -> None:
    rig.name("a", "Ada")
    rig.name("b", "Bob", partition=1)
    rig.name("a", "Ada Lovelace")
    rig.name("c", "Cy", partition=1)
    rig.name("c", None, partition=1)
    rig.bootstrap()
    assert rig.rows() == {"a": "Ada Lovelace", "b": "Bob"}


def test_reading_takes_as_many_polls_as_it_takes() -> None:
    rig = GlobalRig(fetch_records_max=1)
    for number in range(7):
        rig.name(f"k{number}", "v", partition=number % 2)
    rig.bootstrap()
    assert len(rig.rows()) == 7


def test_a_topic_that_ends_in_an_aborted_transaction_is_read_to_its_end(rig: GlobalRig) -> None:
    rig.name("a", "Ada")
    producer = rig.cluster.transactional_producer("tx")
    producer.init_transactions()
    producer.begin()
    producer.produce([ProducedRecord("names", 0, b"a", b"aborted", 6)])
    producer.flush()
    producer.abort()
    rig.bootstrap()
    assert rig.rows() == {"a": "Ada"}


def test_an_empty_topic_holds_nobody_up(rig: GlobalRig) -> None:
    rig.bootstrap()
    assert rig.rows() == {}
    assert "global_poll" not in rig.recorder.take()


def test_a_topic_whose_start_was_deleted_is_read_from_where_it_begins(rig: GlobalRig) -> None:
    for key in ("a", "b", "c"):
        rig.name(key, "v")
    rig.cluster.log(NAMES_0).delete_before(2)
    rig.bootstrap()
    assert rig.rows() == {"c": "v"}


def test_what_comes_later_is_followed(rig: GlobalRig) -> None:
    rig.name("a", "Ada")
    rig.bootstrap()
    rig.name("a", None)
    rig.name("b", "Bob", partition=1)
    rig.poll()
    assert rig.rows() == {"b": "Bob"}


def overtaken(rig: GlobalRig) -> None:
    """A row is deleted, and the log is cut off above that."""
    rig.name("a", None)
    rig.name("b", "Bob")
    rig.cluster.log(NAMES_0).delete_before(rig.cluster.log(NAMES_0).end - 1)


def test_a_log_whose_start_overtook_the_reading_ends_the_worker_and_the_next_one_reads_it_anew(
    rig: GlobalRig,
) -> None:
    rig.name("a", "Ada")
    rig.bootstrap()
    overtaken(rig)
    with pytest.raises(TopicsChangedError, match="names-0 holds the offsets 2 to 3, and was read"):
        rig.poll()
    rig.stores = rig.fresh()
    rig.bootstrap()
    assert rig.rows() == {"b": "Bob"}


def test_a_log_whose_start_overtakes_a_bootstrap_ends_it() -> None:
    rig = GlobalRig(fetch_records_max=1)
    rig.name("a", "Ada")
    rig.name("c", "Cy")

    def overtake_at_the_second() -> None:
        rig.recorder.before["global_poll"] = lambda: overtaken(rig)

    rig.recorder.before["global_poll"] = overtake_at_the_second
    with pytest.raises(TopicsChangedError, match="unread records were lost"):
        rig.bootstrap()


def test_a_log_that_is_cut_off_before_anything_of_it_was_read_is_read_from_its_start(
    rig: GlobalRig,
) -> None:
    rig.name("a", "Ada")
    rig.recorder.before["global_poll"] = lambda: overtaken(rig)
    rig.bootstrap()
    rig.poll()
    assert rig.rows() == {"b": "Bob"}


def test_a_log_that_lost_rows_which_were_read_ends_the_worker(rig: GlobalRig) -> None:
    rig.name("a", "Ada")
    rig.name("b", "Bob")
    rig.bootstrap()
    rig.cluster.log(NAMES_0).truncate(1)
    with pytest.raises(TopicsChangedError, match="holds the offsets 0 to 1, and was read to 2"):
        rig.poll()


def lose_the_position(rig: GlobalRig) -> None:
    """A broker says that it is outside of the log, which it is not."""
    consumer: Any = rig.stores._consumer
    consumer._fetcher.seek(NAMES_0, 1_000_000)


@pytest.mark.parametrize("call", ["start_offsets", "end_offsets", "log_assign"])
def test_a_position_that_is_said_to_be_outside_is_read_on_though_the_first_question_failed(
    rig: GlobalRig, call: str
) -> None:
    """The client tells it once: where that was forgotten, the table stood still for ever."""
    rig.name("a", "Ada")
    rig.bootstrap()
    rig.name("b", "Bob")
    lose_the_position(rig)
    rig.cluster.faults.add(Fault(call, RetriableError("no answer")))
    with pytest.raises(RetriableError, match="no answer"):
        rig.poll()
    rig.poll()
    rig.poll()
    assert rig.rows() == {"a": "Ada", "b": "Bob"}


def test_where_one_log_was_overtaken_the_others_are_followed_as_before(rig: GlobalRig) -> None:
    rig.name("a", "Ada")
    rig.name("b", "Bob", partition=1)
    rig.bootstrap()
    lose_the_position(rig)
    rig.poll()
    rig.name("c", "Cy", partition=1)
    rig.poll()
    assert rig.rows() == {"a": "Ada", "b": "Bob", "c": "Cy"}


def test_a_restart_reads_everything_anew_and_gets_the_same_rows(rig: GlobalRig) -> None:
    rig.name("a", "Ada")
    rig.name("b", "Bob", partition=1)
    rig.bootstrap()
    rig.name("a", "Ada L.")
    rig.poll()
    before = rig.rows()
    rig.recorder.run(rig.stores.close())
    rig.stores = rig.fresh()
    rig.bootstrap()
    assert rig.rows() == before


def test_closing_releases_the_consumer_once(rig: GlobalRig) -> None:
    rig.bootstrap()
    rig.recorder.take()
    rig.recorder.run(rig.stores.close())
    rig.recorder.run(rig.stores.close())
    assert rig.recorder.take() == ["close_log_consumer"]


def test_an_application_without_global_tables_asks_nothing() -> None:
    plan = bind(
        topology_of(lambda b: b.stream("in", key=str, value=str).to("out")),
        "app",
        {"in": TopicDescription("id", 1)},
    )
    cluster = cluster_of({"in": 1, "out": 1})
    stores, recorder = (
        GlobalStores(plan.application_id, plan.global_inputs(), cluster, cluster.clock),
        StepRecorder(),
    )
    recorder.run(stores.bootstrap(cluster.admin()))
    recorder.run(stores.poll())
    recorder.run(stores.close())
    assert recorder.take() == []
    assert stores.stores == {}


def test_a_transaction_that_is_still_open_holds_nobody_up(rig: GlobalRig) -> None:
    rig.name("a", "Ada")
    producer = rig.cluster.transactional_producer("tx")
    producer.init_transactions()
    producer.begin()
    producer.produce([ProducedRecord("names", 0, b"a", b"later", 6)])
    producer.flush()
    rig.bootstrap()
    assert rig.rows() == {"a": "Ada"}
    producer.commit()
    rig.poll()
    assert rig.rows() == {"a": "later"}


def test_a_bootstrap_ends_when_it_is_told_to(rig: GlobalRig) -> None:
    rig.name("a", "Ada")
    rig.recorder.run(rig.stores.bootstrap(rig.cluster.admin(), lambda: True))
    assert rig.rows() == {}
    assert "global_poll" not in rig.recorder.take()


# --- queries --------------------------------------------------------------------------------------


def queried_of(global_stores: Callable[[], GlobalStores | None]) -> QueryableStore:
    place = StorePlace(SPEC, NUMBER, True, SPEC.key.serializer("log", True))
    stores = LocalStores(
        {SPEC.name: place}, "app", dict, lambda _: None, global_stores=global_stores
    )
    return stores.named(SPEC.name)


def test_a_query_sees_whole_batches_however_many_come(rig: GlobalRig) -> None:
    rig.name("a", "Ada")
    rig.bootstrap()
    assert rig.stores.queried(NUMBER, 0) is None, "nobody has published yet"
    rig.poll()
    queried = queried_of(lambda: rig.stores)
    for number in range(200):
        rig.name(f"k{number % 7}", str(number))
        before = queried.get("a")
        rig.poll()
        assert queried.get(f"k{number % 7}").value == str(number)
        assert before.value == "Ada"
    assert len(list(queried.all())) == 8
    task = rig.stores.queried(NUMBER, 0)
    assert task is not None
    assert not task.state.has_many_unapplied(65)


def test_without_queries_no_views_are_made(rig: GlobalRig) -> None:
    rig.name("a", "Ada")
    rig.bootstrap()
    rig.poll()
    assert all(not task.state.view.rows for task in rig.stores._tasks.values())


def test_before_the_start_a_query_is_an_error() -> None:
    queried = queried_of(lambda: None)
    with pytest.raises(StoreUnavailableError, match="has not started"):
        queried.get("a")


def test_a_query_waits_for_no_worker_that_has_ended(rig: GlobalRig) -> None:
    rig.bootstrap()
    queried = queried_of(lambda: rig.stores)
    waiting = threading.Thread(target=rig.recorder.run, args=(rig.stores.close(),))
    waiting.start()
    began_s = time.monotonic()
    with pytest.raises(StoreUnavailableError, match="or has ended"):
        queried.get("a")
    waiting.join()
    assert time.monotonic() - began_s < _FIRST_VIEW_S / 2


def test_slow_records_are_taken_in_several_turns() -> None:
    """Transactions are open and polls are due while a global table is followed."""

    class SlowRig(GlobalRig):
        def topology(self, builder: StreamsBuilder) -> None:
            def take_time(key: object, value: object, timestamp: int, _: int) -> int:
                clock.advance(60)
                return timestamp

            builder.global_table(
                "names", key=str, value=str, store="names", timestamp_extractor=take_time
            )
            builder.stream("in", key=str, value=str).to("out")

    rig = SlowRig()
    clock = rig.cluster.clock
    assert isinstance(clock, ManualClock)
    rig.bootstrap()
    for key in "abcde":
        rig.name(key, "x")
    rig.recorder.take()
    for expected in (2, 4, 5, 5):
        rig.poll()
        assert len(rig.rows()) == expected
    assert rig.recorder.take() == ["global_poll", "global_poll"], "the last one, for more"
