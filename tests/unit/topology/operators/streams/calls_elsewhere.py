"""Processors that make a call of their context or store on a thread of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from logstate import Processor, Record, StreamsBuilder
from logstate.contracts.stores import StoreSpec
from logstate.topology import ProcessorContext, Topology

Call = Callable[[ProcessorContext], object]


class Elsewhere(Processor[str, str, str, str]):
    """Makes a call on a thread of its own, waits for the thread, and looks at no error."""

    call: Call
    failed: list[Exception]

    def process(self, record: Record[str, str]) -> None:
        if record.value == "call":
            thread = threading.Thread(target=self.work, name="pool-1")
            thread.start()
            thread.join()
        else:
            self.context.forward(record)

    def work(self) -> None:
        try:
            self.call(self.context)
        except Exception as error:  # noqa: BLE001  the test looks at it
            self.failed.append(error)


def calling(call: Callable[..., object], failed: list[Exception]) -> type[Elsewhere]:
    return type("Calling", (Elsewhere,), {"call": staticmethod(call), "failed": failed})


def topology_of(supplier: Any, *stores: StoreSpec) -> Topology:
    builder = StreamsBuilder()
    records = builder.stream("in", value=str)
    records.process(supplier, stores=stores, key=str, value=str, name="enrich").to("out")
    return builder.build()
