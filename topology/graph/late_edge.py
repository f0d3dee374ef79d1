"""The edge on which results leave that have waited: what fails below is theirs to answer for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from logstate.contracts.processing import TaskContext

F = TypeVar("F", bound="Callable[..., None]")


def late_edge(task: TaskContext, node: str, forward: F) -> F:
    """``forward`` itself if no handler is asked about what fails."""
    late_results: Any = getattr(task, "late_results", None)
    return forward if late_results is None else late_results.guarded(node, forward)
