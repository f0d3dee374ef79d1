"""Where in the user's code something was declared: the ``file:line`` that build errors name.

The first frame outside the library's own folders counts. It is looked up only while a topology is
declared, never while records flow.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import logstate.contracts.records as nouns
from logstate.contracts.errors import TopologyError
from logstate.contracts.generated_code import FILE_PREFIX

_TOPOLOGY, _LOGSTATE = (Path(path).absolute().parents[1] for path in (__file__, nouns.__file__))
#: folders whose frames are the library's, with a separator at the end, and what it makes from text;
#: the changelog folder is next to the topology's, installed or not
LIBRARY_FOLDERS = (
    *(f"{path}{os.sep}" for path in (_TOPOLOGY, _LOGSTATE, _TOPOLOGY.with_name("changelog"))),
    FILE_PREFIX,
)


def is_library_file(path: str) -> bool:
    """Whether a source file belongs to the library (and so is not the user's)."""
    return path.startswith(LIBRARY_FOLDERS)


def declaration_site() -> str:
    """``file:line`` of the user's call that led here, relative to the working directory."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_library_code(frame.f_code):
        frame = frame.f_back
    return f"{short_path(frame.f_code.co_filename)}:{frame.f_lineno}"


def calling_site() -> str | None:
    """``function at file:line`` of the user's call that led here; None if no user's code did."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_library_code(frame.f_code):
        frame = frame.f_back
    if frame is None:
        return None
    code = frame.f_code
    return f"{code.co_name} at {short_path(code.co_filename)}:{frame.f_lineno}"


def declaration_error(problem: str) -> TopologyError:
    """The error for what the user's call that led here declares."""
    return TopologyError(problem, declared_at=declaration_site())


def _is_library_code(code: CodeType) -> bool:
    # The constructors of nodes are made by ``dataclass``, from text without a file.
    is_constructor = code.co_name == "__init__" and code.co_filename == "<string>"
    return is_constructor or is_library_file(code.co_filename)


def function_site(function: Callable[..., Any]) -> str:
    """``name at file:line`` of a user's callable, or just its name if it has no source."""
    target = inspect.unwrap(function)
    name = getattr(target, "__qualname__", None) or type(target).__name__
    code = getattr(target, "__code__", None)
    if code is None:
        return f"{name}"
    return f"{name} at {short_path(code.co_filename)}:{code.co_firstlineno}"


def short_path(path: str) -> str:
    """The path as a user would type it: relative when it is below the working directory."""
    try:
        relative = os.path.relpath(path)
    except ValueError:
        return path
    return path if relative.startswith(os.pardir) else relative
