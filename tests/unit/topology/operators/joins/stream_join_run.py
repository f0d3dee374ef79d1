"""A stream-stream join over real stores, both sides in one node, for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from logstate import serdes
from logstate.contracts.processing import TaskContext
from logstate.contracts.stores import StoreSpec
from logstate.serdes.join_serdes import SideSerde
from logstate.topology.declaring.windows import JoinWindows
from logstate.topology.graph.nodes import Process, ProcessorNode
from logstate.topology.operators.joins.self_join import SelfJoinNode
from logstate.topology.operators.joins.stream_join import StreamJoinNode
from logstate.topology.operators.joins.stream_join_window import StreamJoinWindowNode
from tests.unit.topology.operators.aggregates.test_window_aggregate import ms
from tests.unit.topology.operators.joins.stream_join_model import LEFT, Event, Result
from tests.unit.topology.operators.one_operator import OneOperator

Kind = Literal["inner", "left", "outer"]


class StreamJoin(ProcessorNode):
    """Takes ``(side, value)`` and hands it to the nodes of that side."""

    def __init__(
        self,
        kind: Kind,
        windows: JoinWindows,
        *,
        in_memory: bool = False,
        emit_interval_ms: int = 0,
    ) -> None:
        super().__init__("join")
        outer = StoreSpec(
            "outer-store",
            "outer_join",
            serdes.string,
            SideSerde(serdes.string, serdes.string),
            in_memory=in_memory,
        )
        self.outer_store = None if kind == "inner" else outer
        self.windows = {
            side: StreamJoinWindowNode(
                f"{name}-window", store=window_store(name, windows, in_memory=in_memory)
            )
            for side, name in ((True, "left"), (False, "right"))
        }
        unmatched = {True: kind != "inner", False: kind == "outer"}
        self.joins = {
            side: StreamJoinNode(
                f"{name}-join",
                is_left_side=side,
                own_window_store=f"{name}-store",
                other_window_store=f"{other}-store",
                outer_store=self.outer_store,
                windows=windows,
                joiner=lambda key, left, right: (left, right),
                emits_unmatched=unmatched[side],
                other_emits_unmatched=unmatched[not side],
                clock="join-stream-time",
                emit_interval_ms=emit_interval_ms,
            )
            for side, name, other in ((True, "left", "right"), (False, "right", "left"))
        }

    def own_stores(self) -> tuple[StoreSpec, ...]:
        windows = tuple(node.store for node in self.windows.values())
        return windows if self.outer_store is None else (*windows, self.outer_store)

    def compile(
        self, task: TaskContext, forward: Callable[..., None], children: Mapping[str, Process]
    ) -> Process:
        sides = {
            side: self.windows[side].compile(task, join.compile(task, forward, {}), {})
            for side, join in self.joins.items()
        }

        def process(key: Any, sided: tuple[bool, Any], timestamp: int, headers: Any) -> None:
            side, value = sided
            sides[side](key, value, timestamp, headers)

        return process


class SelfJoin(ProcessorNode):
    """A self-join over one store, below its window node."""

    def __init__(self, windows: JoinWindows) -> None:
        super().__init__("self-join")
        self.window = StreamJoinWindowNode("window", store=window_store("own", windows))
        self.join = SelfJoinNode(
            "join",
            store_name="own-store",
            windows=windows,
            joiner=lambda key, left, right: (left, right),
        )

    def own_stores(self) -> tuple[StoreSpec, ...]:
        return self.window.own_stores()

    def compile(
        self, task: TaskContext, forward: Callable[..., None], children: Mapping[str, Process]
    ) -> Process:
        return self.window.compile(task, self.join.compile(task, forward, {}), {})


def window_store(name: str, windows: JoinWindows, *, in_memory: bool = False) -> StoreSpec:
    return StoreSpec(
        f"{name}-store",
        "window",
        serdes.string,
        serdes.string,
        in_memory=in_memory,
        window_size_ms=windows.size_ms,
        retention_ms=windows.size_ms + windows.grace_ms,
        retain_duplicates=True,
    )


def spans(before: int, after: int, grace: int = 0) -> JoinWindows:
    return JoinWindows(before=ms(before), after=ms(after), grace=ms(grace))


def left(key: str | None, value: str | None, time: int) -> Event:
    return Event(LEFT, key, value, time)


def right(key: str | None, value: str | None, time: int) -> Event:
    return Event(not LEFT, key, value, time)


def process(run: OneOperator, event: Event) -> list[Result]:
    side, key, value, time = event
    return [Result(*edge[:3]) for edge in run.pipe(key, (side, value), time)]
