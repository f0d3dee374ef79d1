"""A topology bound to a cluster: real names, partition counts, and every problem at once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from logstate.contracts.errors import TopicError
from logstate.contracts.records import TaskId, TopicPartition
from logstate.contracts.stores import StoreSpec
from logstate.testing import TopologyTestDriver
from logstate.topics.bound_plan import BoundPlan, bind, external_topics
from logstate.topology import JoinWindows, StreamsBuilder
from tests.unit.logstate.plans import by_word, described, plan_of
from tests.unit.logstate.task.task_bench import topology_of

REPARTITION = "app-by-word-repartition"


def passed(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=str).to("out")


def joined(builder: StreamsBuilder) -> None:
    """A stream of its own repartition topic meets a table that is read as it is."""
    orders = builder.stream("orders", key=str, value=str)
    users = builder.table("users", key=str, value=str, store="users")
    by_user = orders.select_key(lambda value: value, key=str)
    meeting = by_user.join(users, lambda order, user: order + user, name="meet", value=str)
    meeting.to("out", value=str)


# --- names and tasks ------------------------------------------------------------------------------


def test_internal_topics_get_the_application_id_in_front() -> None:
    plan = plan_of(by_word, **{"in": 3})
    assert plan.resolved("by-word-repartition", is_internal=True) == REPARTITION
    assert plan.resolved("in", is_internal=False) == "in"
    assert plan.repartition_topics == {REPARTITION}
    assert plan.subscription == sorted([REPARTITION, "in"])


def test_there_is_a_task_per_sub_topology_and_partition() -> None:
    plan = plan_of(by_word, **{"in": 3})
    assert plan.task_ids() == [TaskId(sub, p) for sub in (0, 1) for p in range(3)]
    assert plan.input_partitions(TaskId(0, 2)) == (TopicPartition("in", 2),)
    assert plan.input_partitions(TaskId(1, 2)) == (TopicPartition(REPARTITION, 2),)
    assert plan.sub_topology(TaskId(1, 2)).id == 1


def test_a_task_of_several_topics_reads_the_partition_of_its_number_from_each() -> None:
    plan = plan_of(joined, orders=2, users=4)
    task = next(t for t in plan.task_ids() if len(plan.input_partitions(t)) == 2)
    assert {tp.partition for tp in plan.input_partitions(task)} == {task.partition}
    assert "users" in {tp.topic for tp in plan.input_partitions(task)}


def test_without_state_topics_of_unequal_counts_make_tasks_of_what_there_is() -> None:
    def declare(builder: StreamsBuilder) -> None:
        left = builder.stream("left", key=str, value=str)
        left.merge(builder.stream("right", key=str, value=str)).to("out")

    plan = plan_of(declare, left=1, right=3)
    assert plan.task_count(plan.topology.sub_topologies[0]) == 3
    assert plan.input_partitions(TaskId(0, 0)) == (
        TopicPartition("left", 0),
        TopicPartition("right", 0),
    )
    assert plan.input_partitions(TaskId(0, 2)) == (TopicPartition("right", 2),)


def test_a_changelog_is_named_after_application_and_store() -> None:
    plan = plan_of(by_word, **{"in": 3})
    (spec,) = plan.topology.sub_topologies[1].stores
    assert plan.changelog_topic(spec) == "app-counts-changelog"
    assert plan.changelog_topic(_with(spec, is_logged=False)) is None
    assert plan.changelog_topic(_with(spec, source_topic="users")) == "users"


def _with(spec: StoreSpec, **changes: object) -> StoreSpec:
    return StoreSpec(spec.name, spec.kind, spec.key, spec.value, **changes)  # type: ignore[arg-type]


def test_what_is_internal() -> None:
    plan = plan_of(by_word, **{"in": 3})
    assert plan.is_internal(REPARTITION)
    assert plan.is_internal("app-counts-changelog")
    assert not plan.is_internal("in")
    assert not plan.is_internal("out")
    assert not plan.is_internal("another-counts-changelog")


# --- counts of repartition topics -----------------------------------------------------------------


def test_a_repartition_topic_has_as_many_partitions_as_what_writes_to_it() -> None:
    plan = plan_of(by_word, **{"in": 5})
    assert plan.partition_counts[REPARTITION] == 5


def test_the_largest_source_decides() -> None:
    def declare(builder: StreamsBuilder) -> None:
        left = builder.stream("left", key=str, value=str)
        both = left.merge(builder.stream("right", key=str, value=str))
        both.group_by(lambda value: value, name="by-word", key=str).count(store="counts")

    assert plan_of(declare, left=2, right=7).partition_counts[REPARTITION] == 7


@pytest.mark.parametrize("length", [2, 5])
def test_counts_travel_along_a_chain_of_repartitions(length: int) -> None:
    def declare(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        # Names sort against the direction of the flow: the last one is resolved first.
        for number in reversed(range(length)):
            stream = stream.repartition(name=f"step-{number}").map_values(str, value=str)
        stream.to("out")

    counts = plan_of(declare, **{"in": 6}).partition_counts
    assert [counts[f"app-step-{n}-repartition"] for n in range(length)] == [6] * length


def test_an_enforced_count_wins_and_travels_on() -> None:
    def declare(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        wide = stream.repartition(name="wide", partitions=12).map_values(str, value=str)
        wide.repartition(name="next").to("out")

    counts = plan_of(declare, **{"in": 2}).partition_counts
    assert counts["app-wide-repartition"] == counts["app-next-repartition"] == 12


def test_a_repartition_topic_that_meets_an_external_one_takes_its_count() -> None:
    for users in (1, 4, 9):
        counts = plan_of(joined, orders=4, users=users).partition_counts
        assert counts["app-meet-repartition"] == users


def test_repartition_topics_that_meet_each_other_take_the_larger_count() -> None:
    def declare(builder: StreamsBuilder) -> None:
        windows = JoinWindows.symmetric(timedelta(seconds=1))
        left = builder.stream("left", key=str, value=str).repartition(name="by-left")
        right = builder.stream("right", key=str, value=str).repartition(name="by-right")
        both = left.join(right, lambda a, b: a + b, windows=windows, name="meet")
        both.to("out", value=str)

    counts = plan_of(declare, left=2, right=6).partition_counts
    assert counts["app-by-left-repartition"] == counts["app-by-right-repartition"] == 6


# --- problems -------------------------------------------------------------------------------------


def test_every_missing_source_topic_is_listed() -> None:
    with pytest.raises(TopicError) as caught:
        plan_of(joined)
    text = str(caught.value)
    assert text.startswith("2 problems with the topics:")
    assert "1. source topic 'orders' does not exist" in text
    assert "2. source topic 'users' does not exist" in text
    assert "never created by the application" in text


@pytest.mark.parametrize("reader", ["stream", "table", "global_table"])
@pytest.mark.parametrize("exists", [True, False])
def test_a_topic_between_its_parts_is_nobody_elses_source(reader: str, exists: bool) -> None:
    builder = StreamsBuilder()
    words = builder.stream("in", key=str, value=str)
    words.group_by(lambda word: word, key=str, name="by-word").count(store="counts")
    options = {} if reader == "stream" else {"store": "rows"}
    getattr(builder, reader)(REPARTITION, key=str, value=str, **options)
    topology = builder.build()
    existing = described(**({"in": 1, REPARTITION: 1} if exists else {"in": 1}))
    with pytest.raises(TopicError, match=r"^source topic 'app-by-word-repartition': the appl"):
        bind(topology, "app", existing)
    with pytest.raises(TopicError, match=r"stream that repartition\(\) returns"):
        TopologyTestDriver(topology)
    bind(topology, "another", described(**{"in": 1, REPARTITION: 1}))


def test_one_problem_is_said_without_a_list() -> None:
    with pytest.raises(TopicError, match=r"^source topic 'users' does not exist; .*create it"):
        plan_of(joined, orders=1)


def test_joined_topics_of_unequal_counts_are_refused_with_both_counts() -> None:
    def declare(builder: StreamsBuilder) -> None:
        orders = builder.stream("orders", key=str, value=str)
        users = builder.table("users", key=str, value=str, store="users")
        orders.join(users, lambda order, user: order + user, value=str).to("out", value=str)

    plan_of(declare, orders=4, users=4)
    with pytest.raises(TopicError) as caught:
        plan_of(declare, orders=4, users=3)
    assert "different partition counts" in str(caught.value)
    assert "'orders': 4" in str(caught.value)
    assert "'users': 3" in str(caught.value)
    assert "repartition(partitions=...)" in str(caught.value)


def test_state_over_topics_of_unequal_counts_is_refused() -> None:
    def declare(builder: StreamsBuilder) -> None:
        left = builder.stream("left", key=str, value=str)
        both = left.merge(builder.stream("right", key=str, value=str))
        both.group_by_key().count(store="counts")

    assert isinstance(plan_of(declare, left=3, right=3), BoundPlan)
    with pytest.raises(TopicError, match=r"different partition counts: \{.*'left': 2"):
        plan_of(declare, left=2, right=3)


def test_a_topic_without_partitions_is_refused() -> None:
    with pytest.raises(TopicError, match="'app-by-word-repartition' would have no partitions"):
        plan_of(by_word, **{"in": 0})


@pytest.mark.parametrize("own", ["app-counts-changelog", REPARTITION, "app-cuts"])
def test_a_topic_of_its_own_is_no_output_in_the_driver_either(own: str) -> None:
    builder = StreamsBuilder()
    words = builder.stream("in", key=str, value=str)
    counts = words.group_by(lambda word: word, key=str, name="by-word").count(store="counts")
    counts.to_stream().to(own, key=str, value=int)
    topology = builder.build()

    with pytest.raises(TopicError, match=f"^output topic '{own}': the application creates that"):
        TopologyTestDriver(topology)

    TopologyTestDriver(topology, application_id="another").close()


def test_the_topics_of_global_tables_must_exist_too() -> None:
    def declare(builder: StreamsBuilder) -> None:
        names = builder.global_table("names", key=str, value=str, store="names")
        stream = builder.stream("in", key=str, value=str)
        joined = stream.join(names, lambda a, b: a + b, key_mapper=lambda key, value: key)
        joined.to("out", value=str)

    topology = topology_of(declare)
    assert external_topics(topology) == ["in", "names"]
    with pytest.raises(TopicError, match="source topic 'names' does not exist"):
        bind(topology, "app", described(**{"in": 1}))
    plan = bind(topology, "app", described(**{"in": 1, "names": 3}))
    assert plan.subscription == ["in"], "the group does not read global topics"


def test_topic_ids_of_what_exists_are_kept() -> None:
    assert plan_of(passed, **{"in": 1}).topic_ids == {"in": "id-of-in"}
