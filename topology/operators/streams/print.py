"""print: writes every record to a text stream, for looking at a topology while it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TextIO

from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class PrintNode(ProcessorNode):
    """One line ``[label]: key, value`` per record. ``file`` None: standard output of the moment."""

    label: str
    file: TextIO | None = None
    mapper: Callable[[Any, Any], Any] | None = None

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        label, mapper = self.label, self.mapper
        file = self.file

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            text = f"{key}, {value}" if mapper is None else mapper(key, value)
            out = sys.stdout if file is None else file
            out.write(f"[{label}]: {text}\n")

        return process
