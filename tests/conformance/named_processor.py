"""What the named processors have in common: arguments, a store, and that null keys are ignored."""

from __future__ import annotations

from typing import Any

from logstate.contracts.records import Record
from logstate.topology import Processor, ProcessorContext


class NamedProcessor(Processor[Any, Any, Any, Any]):
    """A processor with the arguments and the stores of its step."""

    takes_null_keys = False

    def __init__(self, args: dict[str, Any], stores: list[str]) -> None:
        self.args = args
        self.stores = stores
        self.store: Any = None

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        if self.stores:
            self.store = context.store(self.stores[0])
        self.start()

    def start(self) -> None:
        """Called once, before the first record."""

    def process(self, record: Record[Any, Any]) -> None:
        if record.key is not None or self.takes_null_keys:
            self.handle(record)

    def handle(self, record: Record[Any, Any]) -> None:
        """What the processor does with a record."""
        raise NotImplementedError
