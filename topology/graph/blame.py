"""Which operator and which user function raised: read from a traceback, at no cost per record.

Each compiled closure gets a copy of its code object that carries the operator's name. So a
traceback shows ``operator 'spend'`` where it would show ``process``, this module can find it again,
and the interpreter specialises every operator's code for the types it sees.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple, TypeVar

from logstate.topology.declaring.declaration_site import is_library_file, short_path

F = TypeVar("F", bound="Callable[..., Any]")

_MARK = "operator "
#: (id of a closure's code, operator) -> the code, which keeps the id taken, and its marked copy:
#: all tasks of an operator run the same copy, which is made, and specialised, once
_MARKED: dict[tuple[int, str], tuple[CodeType, CodeType]] = {}


class Blame(NamedTuple):
    """The operator that ran, and ``file:line in function`` of the user's code, if known.

    ``label`` says what an operator does that the user did not name.
    """

    node: str | None
    function: str | None
    label: str | None = None

    @property
    def shown(self) -> str:
        """The operator's name for messages, with its label."""
        return repr(self.node) if self.label is None else f"{self.node!r} ({self.label})"


def labelled(function: F, name: str) -> F:
    """Mark a closure with its operator's name; a closure that already has one keeps it."""
    if isinstance(function, FunctionType) and not function.__code__.co_name.startswith(_MARK):
        plain = function.__code__
        kept = _MARKED.get((id(plain), name))
        if kept is None:
            label = f"{_MARK}{name!r}"
            kept = plain, plain.replace(co_name=label, co_qualname=label)
            _MARKED[id(plain), name] = kept
        function.__code__ = kept[1]
    return function


def operator_of(code: CodeType) -> str | None:
    """The name of the operator whose closure has this code; None for any other."""
    return code.co_name[len(_MARK) + 1 : -1] if code.co_name.startswith(_MARK) else None


def blame(error: BaseException) -> Blame:
    """The innermost operator on the traceback, and the user's innermost frame below it."""
    return blamed_operators(error)[-1]


def blamed_operators(error: BaseException) -> list[Blame]:
    """The operators on the traceback, outermost first, each with the user's innermost frame in it.

    Where there is none, one Blame without an operator. An error that was made once and is raised
    again and again carries the traces of all times, the newest first; each begins where it is
    caught.
    """
    found = [Blame(None, None)]
    trace = error.__traceback__
    caught_in = None if trace is None else trace.tb_frame.f_code
    is_first = True
    while trace is not None:
        code = trace.tb_frame.f_code
        if code is caught_in and not is_first:
            break
        is_first = False
        operator = operator_of(code)
        if operator is not None:
            found.append(Blame(operator, None))
        elif not is_library_file(code.co_filename):
            function = f"{short_path(code.co_filename)}:{trace.tb_lineno} in {code.co_name}"
            found[-1] = Blame(found[-1].node, function)
        trace = trace.tb_next
    return found if len(found) == 1 else found[1:]


def running_operators() -> list[Blame]:
    """The operators that are at work, innermost first, each with the user's line that it is at."""
    found: list[Blame] = []
    function: str | None = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name.startswith(_MARK):
            found.append(Blame(code.co_name[len(_MARK) + 1 : -1], function))
            function = None
        elif function is None and not is_library_file(code.co_filename):
            function = f"{short_path(code.co_filename)}:{frame.f_lineno} in {code.co_name}"
        frame = frame.f_back
    return found
