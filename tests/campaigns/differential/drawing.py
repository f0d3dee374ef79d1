"""A topology in the making: its steps, its flows, and what every drawn step needs."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

Step = dict[str, Any]
_EXTRACTORS = ("payload_field_or_partition_time", "payload_field", "payload_field_or_record_time")


_NAMED_JOINS = ("stream_stream", "foreign_key")


@dataclass(frozen=True)
class Drawn:
    """A flow by the name of its step: what kind it is, and the types of its records."""

    name: str
    kind: str  # stream, table, grouped_stream, grouped_table
    key: str
    value: str
    window_size_ms: int | None = None
    #: the grace of the windows that the keys are of
    grace_ms: int | None = None
    is_versioned: bool = False
    #: its rows can be read by joins and groupings
    has_rows: bool = True


#: what changes where a key becomes a plain text
PLAIN_KEY: dict[str, Any] = {"key": "string", "window_size_ms": None, "grace_ms": None}


class Drawing:
    """One topology in the making."""

    def __init__(self, rng: Random, *, emits_on_commit: bool = False) -> None:
        self.rng = rng
        #: results of aggregations may wait for the commit
        self.emits_on_commit = emits_on_commit
        self.steps: list[Step] = []
        self.inputs: dict[str, dict[str, Any]] = {}
        self.outputs: dict[str, dict[str, Any]] = {}
        self.flows: list[Drawn] = []
        self.used: set[str] = set()
        #: how likely it is that an operator has a generated name
        self.unnamed = rng.choice((0.0, 0.3, 0.9))

    def add(self, op: str, flow: Drawn, **members: Any) -> Drawn:
        """Note a step and the flow that it gives."""
        step = {"op": op, "name": flow.name, **members, **self.maybe_unnamed(op, members)}
        self.steps.append({name: value for name, value in step.items() if value is not None})
        self.used.update(members.get(name, "") for name in ("in", "left", "right"))
        self.used.update(group["in"] for group in members.get("groups", ()))
        self.flows.append(flow)
        return flow

    def maybe_unnamed(self, op: str, members: Step) -> Step:
        """The member that says that the operator has no name, where none is asked for."""
        always = op in ("repartition", "suppress") or members.get("kind") in _NAMED_JOINS
        always = always or members.get("grace_ms") is not None
        return {"is_unnamed": True} if not always and self.chance(self.unnamed) else {}

    def name(self, of: str) -> str:
        """A name that no step has yet."""
        return f"{of}{len(self.steps)}"

    def chance(self, probability: float) -> bool:
        """Whether something of this probability happens."""
        return self.rng.random() < probability

    def store(self, *, may_be_absent: bool = True, may_be_versioned: bool = False) -> Step:
        """The members that name a store."""
        if may_be_absent and self.chance(0.4):
            return {}
        found: Step = {"store": self.name("store")}
        if may_be_versioned and self.chance(0.2):
            found["versioned_history_ms"] = self.rng.choice((10, 40, 100))
        elif self.chance(0.3):
            found["store_impl"] = "in_memory"
        elif self.chance(0.2):
            found["capacity"] = self.rng.choice((1, 2, 3))
        if self.chance(0.1):
            found["logging"] = False
        return found

    # --- sources and sinks -----------------------------------------------------------------------

    def source(self) -> None:
        topic, kind = f"t{len(self.inputs)}", self.rng.choice(("stream", "stream", "table"))
        types = {"key": "string", "value": self.rng.choice(("string", "int64"))}
        if self.inputs and self.chance(0.1):
            topic, types = self.rng.choice(sorted(self.inputs.items()))
        self.inputs[topic] = types
        store = self.store(may_be_versioned=True) if kind == "table" else {}
        flow = Drawn(
            self.name("source"),
            kind,
            **types,
            is_versioned="versioned_history_ms" in store,
            has_rows=kind == "table" and "store" in store,
        )
        extractor = None
        if types["value"] == "string" and self.chance(0.15):
            # A table's log does not tell the partition's times, should it be its changelog.
            extractor = {self.rng.choice(_EXTRACTORS[kind == "table" :]): 1}
        self.add(kind, flow, topic=topic, **types, timestamp_extractor=extractor, **store)
        if kind == "stream" and self.chance(0.1) and extractor is None:
            more = f"{topic}x"
            self.inputs[more] = types
            del self.steps[-1]["topic"]
            self.steps[-1]["topics"] = [topic, more]

    def sink(self, flow: Drawn) -> None:
        if flow.kind == "table":
            flow = self.add("to_stream", self.then(flow, "out", kind="stream"), **{"in": flow.name})
        topic = f"out{len(self.outputs)}"
        self.outputs[topic] = {"key": flow.key, "value": flow.value}
        if flow.window_size_ms is not None:
            self.outputs[topic]["window_size_ms"] = flow.window_size_ms
        step = {"op": "to", "name": self.name("sink"), "in": flow.name, "topic": topic}
        self.steps.append(step | self.maybe_unnamed("to", {}))
        self.used.add(flow.name)

    def then(self, flow: Drawn, of: str, **changed: Any) -> Drawn:
        known = {
            "kind": flow.kind,
            "key": flow.key,
            "value": flow.value,
            "window_size_ms": flow.window_size_ms,
            "grace_ms": flow.grace_ms,
            "has_rows": flow.has_rows,
            "is_versioned": False,
        }
        return Drawn(self.name(of), **(known | changed))

    def value_mapper(self, flow: Drawn) -> tuple[Any, str]:
        if flow.value == "int64":
            mapper = self.rng.choice(
                ({"add": 1}, {"mul": 3}, {"null_if_gt": 5}, "to_string", "tag", {"value_mod": 3})
            )
        else:
            mapper = self.rng.choice((({"value_suffix": "!"}), "length", {"field": 0}, "tag"))
        return mapper, self._mapped(mapper, flow.value)

    def _mapped(self, mapper: Any, value: str) -> str:
        name = mapper if isinstance(mapper, str) else next(iter(mapper))
        if name in ("identity", "null_if_gt"):
            return value
        return "int64" if name in ("add", "mul", "length") else "string"

    def key_mapper(self, flow: Drawn) -> Any:
        """One that gives a string."""
        if flow.key != "string":
            return self.rng.choice(("window_key", "window_inner_key"))
        if flow.value == "int64":
            return self.rng.choice(({"value_mod": 2}, {"key_null_if_value_gt": 7}, "tag"))
        return self.rng.choice(({"field": 0}, "identity", {"value_suffix": "#"}))

    def others(self, flow: Drawn, kind: str, **like: str) -> list[Drawn]:
        return [
            other
            for other in self.flows
            if other.kind == kind
            and other.key == flow.key
            and other.window_size_ms == flow.window_size_ms
            and other.has_rows | (kind != "table")
            and all(getattr(other, name) == value for name, value in like.items())
        ]
