"""Operators that forward all records unchanged: the union of streams, peek, foreach and print.

The side effects of peek, foreach and print happen at least once even under exactly-once: they are
repeated for a record that is processed again after a crash.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TextIO

from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.topology.declaring.plain_functions import refuse_unfinished
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class PassThroughNode(ProcessorNode):
    """Has no runtime cost: its closure is that of its children."""

    forwards_each = True

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        return forward


class PeekNode(ProcessorNode):
    """Calls the action, then passes the record on (foreach simply has no children)."""

    passes_on = True
    forwards_each = True

    action: Callable[[Any, Any], Any]

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        action = self.action

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            result = action(key, value)
            if result is not None:
                refuse_unfinished(result, action, "action")
            forward(key, value, timestamp, headers)

        return process


class PrintNode(ProcessorNode):
    """One line ``[label]: key, value`` per record. ``file`` None: the current standard output."""

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
