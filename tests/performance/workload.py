"""The workloads, and who can run them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Emit = Literal["update", "commit"]
Kind = Literal["throughput", "restore", "latency"]


@dataclass(frozen=True)
class Workload:
    """One line of the comparison."""

    code: str
    name: str
    #: what the programs are asked for
    program: str
    kind: Kind = "throughput"
    is_exactly_once: bool = False
    #: the results are changes of a table, so "the last per key and commit" can be asked for
    has_emit: bool = False

    @property
    def is_latency(self) -> bool:
        """Whether the time of single records is measured."""
        return self.kind == "latency"


_ALL = (
    Workload("W1", "passthrough", "passthrough"),
    Workload("W2", "count", "count", has_emit=True),
    Workload("W3", "count-eos", "count", is_exactly_once=True, has_emit=True),
    Workload("W4", "window", "window", has_emit=True),
    Workload("W5", "join", "join"),
    Workload("W6", "restore", "restore", kind="restore"),
    Workload("W7", "latency", "count", kind="latency"),
)
WORKLOADS: Mapping[str, Workload] = {workload.code: workload for workload in _ALL}


@dataclass(frozen=True)
class Variant:
    """How logstate's own program is started as a peer of itself."""

    #: as many workers as the other side
    has_workers: bool = True
    has_extension: bool = True


#: logstate's own program
OURS: Mapping[str, Variant] = {
    # Against itself: how far the ratio of two equal programs is from 1 on this machine.
    "logstate": Variant(),
    # The same program with one worker: what the others add.
    "one-worker": Variant(has_workers=False),
    # The same program without the extension module: what that saves.
    "without-extension": Variant(has_extension=False),
}
#: what each peer can do; the others are not supported by them or were never written
PEERS: Mapping[str, frozenset[str]] = {
    "kafka-streams": frozenset(WORKLOADS),
    "quix": frozenset(WORKLOADS),
    "faust": frozenset({"W1", "W2", "W4", "W6"}),
    "bytewax": frozenset({"W1", "W2"}),
    "raw": frozenset({"W1"}),
    **dict.fromkeys(OURS, frozenset(WORKLOADS)),
}
#: peers whose positions are not in Kafka: only their outputs can be observed
WITHOUT_OFFSETS = frozenset({"bytewax"})
#: peers that can hold results back until the commit; the rest write every update
WITH_EMIT = frozenset({*OURS, "kafka-streams"})


def emits(workload: Workload, peer: str | None) -> tuple[Emit, ...]:
    """The output policies under which both sides do the same work."""
    if workload.has_emit and (peer is None or peer in WITH_EMIT):
        return ("update", "commit")
    return ("update",)
