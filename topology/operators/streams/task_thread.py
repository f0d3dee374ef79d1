"""Calls of a processor's context and stores are accepted from the thread that runs its task.

A task computes on one thread, and a commit includes everything since the previous one at a single
instant. The result of a call from another thread would be in no commit, in the commit of another
record, or in a data structure that is being changed. So every call is checked, and a call that
would have changed something also stops the task before its next commit, because the caller may
ignore the exception.

While a thread runs a task it holds a lock, and the check asks the lock whether this thread has it:
one call into C, half the cost of comparing ``get_ident()``. Queries of applications are not
checked: they read committed rows, from any thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from inspect import CO_VARARGS, CO_VARKEYWORDS
from itertools import chain
from threading import get_ident
from types import FunctionType, MethodWrapperType
from typing import Any, Final

from logstate.contracts.errors import WrongThreadError
from logstate.contracts.generated_code import make_function
from logstate.contracts.processing import Cancellable, TaskContext
from logstate.topology.declaring.declaration_site import calling_site

_LOGGER = logging.getLogger(__name__)

WRITES: Final = frozenset(
    {
        "add",
        "append",
        "clear",
        "delete",
        "discard",
        "extend",
        "pop",
        "pop_first",
        "put",
        "put_all",
        "put_if_absent",
        "remove",
        "set",
    }
)
#: reads that return iterators; ``fetch`` is one of them in session stores
_SCANS: Final = frozenset(
    {
        "all",
        "by",
        "by_range",
        "fetch_all",
        "fetch_key_range",
        "fetch_range",
        "find_ended",
        "find_sessions",
        "find_sessions_of_key_range",
        "items",
        "prefix_scan",
        "range",
        "reverse_all",
        "reverse_range",
        "values",
        "versions",
    }
)


def check_thread(task: TaskContext, node: str, call: str, *, changes: bool) -> None:
    """Raise WrongThreadError unless this thread is the one that runs, or ran, the task.

    Only called where ``task.is_running_here()`` is false: between two runs the thread that ran the
    task last may still use the context. ``changes``: what the refused call was to do would be lost,
    so the task must not commit.
    """
    if get_ident() == task.thread:
        return
    here, site = threading.current_thread(), calling_site()
    made = "" if site is None else f", in {site}"
    error = WrongThreadError(
        f"Processor {node!r} called {call} from thread {here.name!r} ({here.ident}){made}, but"
        f" task {task.task_id} runs on thread {_name_of(task.thread)!r} ({task.thread}). A context"
        " and its stores may be used only by the thread that runs the task: a call from another"
        " thread would be part of no commit, or of the commit of another record. Wait for the"
        " other thread's result in process(), or have it put its results into a queue.Queue that a"
        " scheduled callback reads and forwards",
        task=str(task.task_id),
        node=node,
    )
    if changes and task.misuse is None:
        task.misuse = error
        _LOGGER.error("%s", error)
    raise error


def _name_of(ident: int) -> str:
    for thread in threading.enumerate():
        if thread.ident == ident:
            return thread.name
    return "(ended)"


class OwnSchedule:
    """The handle of a schedule, for the thread of its task."""

    __slots__ = ("_name", "_schedule", "_task")

    def __init__(self, schedule: Cancellable, task: TaskContext, name: str) -> None:
        self._schedule = schedule
        self._task = task
        self._name = name

    def cancel(self) -> None:
        """Stop further calls. Raises WrongThreadError on another thread than the task's."""
        if not self._task.is_running_here():
            check_thread(self._task, self._name, "cancel() of a schedule", changes=True)
        self._schedule.cancel()

    def repeat(self) -> None:
        """Repeat a look for timers after the current record, if that advanced stream time."""
        self._task.repeat_timers(self._schedule)


class OwnStore:
    """A store for processors: every method checks the thread, then calls the store's."""

    def __init__(self, store: Any, task: TaskContext, node: str, name: str) -> None:
        self._store = store
        is_here = task.is_running_here
        is_session = hasattr(store, "find_sessions")

        def check(method: str) -> None:
            changes = method in WRITES
            check_thread(task, node, f"{method}() of store {name!r}", changes=changes)

        own = getattr(store, "checked", _no_methods)(is_here, check)
        for method in dir(store):
            found = None if method.startswith("_") else getattr(store, method)
            if method in own:
                setattr(self, method, own[method])
            elif callable(found):
                scans = method in _SCANS or (is_session and method == "fetch")
                bind = _checked_iteration if scans else _checked
                setattr(self, method, bind(found, is_here, partial(check, method)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def _no_methods(*_check: object) -> dict[str, Callable[..., Any]]:
    return {}


_CHECKED: Final = """\
def bind(method, is_here, check):
    def checked({parameters}):
        if not is_here():
            check()
        return method({parameters})
    return checked
"""


def _checked(
    method: Callable[..., Any], is_here: Callable[[], bool], check: Callable[[], None]
) -> Callable[..., Any]:
    source = _CHECKED.format(parameters=_parameters(method))
    bind = make_function("bind", source, "check of the thread")
    checked: Callable[..., Any] = bind(method, is_here, check)
    return checked


def _parameters(method: Callable[..., Any]) -> str:
    """Return the method's parameter names if all are required: that call is the cheapest."""
    plain = getattr(method, "__func__", method)
    if type(plain) is not FunctionType:
        return "key" if isinstance(method, MethodWrapperType) else "*arguments, **options"
    code = plain.__code__
    takes_more = code.co_kwonlyargcount or code.co_flags & (CO_VARARGS | CO_VARKEYWORDS)
    if takes_more or plain.__defaults__:
        return "*arguments, **options"
    return ", ".join(code.co_varnames[plain is not method : code.co_argcount])


def _checked_iteration(
    method: Callable[..., Iterable[Any]], is_here: Callable[[], bool], check: Callable[[], None]
) -> Callable[..., Iterator[Any]]:
    """Rows are read during iteration, so the first step is checked as well as the call."""

    def first(rows: Iterable[Any]) -> Iterator[Iterable[Any]]:
        if not is_here():
            check()
        yield rows

    def scan(*arguments: Any, **options: Any) -> Iterator[Any]:
        if not is_here():
            check()
        return chain.from_iterable(first(method(*arguments, **options)))

    return scan
