"""Where standbys are put: at whoever the assignor would give the task to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.records import TaskId, TopicPartition
from logstate.restore.standby_assignor import Inputs, Peer, standby_assignment


def inputs(partitions: int) -> Inputs:
    tasks = {TaskId(0, p): (TopicPartition("in", p),) for p in range(partitions)}
    return Inputs(tasks, {"in": partitions})


def peers(*instances: str, racks: str = "") -> list[Peer]:
    """A member each; `racks` has the letter of each one's rack."""
    return [
        Peer(f"{instance}-{i}", None, instance, racks[i : i + 1])
        for i, instance in enumerate(instances)
    ]


def holders(partitions: int, members: list[Peer], replicas: int) -> dict[int, list[str]]:
    places = standby_assignment(inputs(partitions), members, replicas)
    return {task.partition: [p.instance for p in found] for task, found in places.items()}


def test_a_standby_is_where_the_task_goes_when_its_instance_dies() -> None:
    # a has 0 and 1, b has 2 and 3, c has 4 and 5; without a, b would have 0 to 2 and c the rest
    assert holders(6, peers("a", "b", "c"), 1) == {
        0: ["b"],
        1: ["b"],
        2: ["a"],
        3: ["c"],
        4: ["b"],
        5: ["b"],
    }


def test_a_second_standby_is_where_the_task_goes_when_another_instance_dies() -> None:
    assert holders(6, peers("a", "b", "c"), 2)[2] == ["a", "c"]  # to c after the death of a
    assert holders(6, peers("a", "b", "c", "d"), 2)[4] == ["d", "a"]  # to d whoever dies


def test_standbys_that_no_death_asks_for_go_to_other_racks() -> None:
    members = peers("a", "b", "c", "d", racks="xxyx")
    assert holders(4, members, 2)[0] == ["b", "c"]


def test_no_standby_shares_an_instance_with_its_task_or_with_another_standby() -> None:
    assert holders(4, peers("a", "a", "a"), 2) == {0: [], 1: [], 2: [], 3: []}
    assert holders(2, peers("a", "b"), 3) == {0: ["b"], 1: ["a"]}


def test_static_members_stand_before_others_whatever_their_member_ids() -> None:
    late = Peer("z", "first", "static")
    early = Peer("a", None, "dynamic")
    assert inputs(2).owners([early, late])[TaskId(0, 0)] is late


@given(
    st.integers(1, 12),
    st.lists(st.sampled_from("abcde"), min_size=1, max_size=7),
    st.integers(1, 3),
)
def test_whatever_instance_dies_its_heirs_have_standbys(
    partitions: int, instances: list[str], replicas: int
) -> None:
    members = peers(*instances)
    places = standby_assignment(inputs(partitions), members, replicas)
    owners = inputs(partitions).owners(members)
    assert places.keys() == owners.keys()
    for task, found in places.items():
        instance = owners[task].instance
        left = [peer for peer in members if peer.instance != instance]
        heir = inputs(partitions).owners(left).get(task)
        assert heir is None or heir == found[0]
        assert len(found) == min(replicas, len(set(instances) - {instance}))
        assert len({instance, *(peer.instance for peer in found)}) == len(found) + 1
