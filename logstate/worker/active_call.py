"""Find out which operator and user function a thread is in, and its stack."""

from __future__ import annotations

import sys
import traceback
from types import FrameType
from typing import NamedTuple

from logstate.topology.declaring.declaration_site import is_library_file, short_path
from logstate.topology.graph.blame import operator_of


class ActiveCall(NamedTuple):
    """``function`` is the user's, as ``name at file:line`` of its first line; None outside of
    one.
    """

    node: str | None
    function: str | None
    #: the frames from the user's function inwards, formatted as in a traceback
    stack: str


def active_call(thread_id: int) -> ActiveCall | None:
    """Return the call that a running thread is in, from its frames; None if the thread has
    ended.
    """
    frame = sys._current_frames().get(thread_id)  # noqa: SLF001  its documented name
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    if not frames:
        return None
    node: str | None = None
    users: list[FrameType] = []
    for one in reversed(frames):  # outermost first
        operator = operator_of(one.f_code)
        if operator is not None:
            node, users = operator, []
        elif users or (node is not None and not is_library_file(one.f_code.co_filename)):
            users.append(one)
    if not users:
        return ActiveCall(node, None, "")
    code = users[0].f_code
    place = f"{code.co_name} at {short_path(code.co_filename)}:{code.co_firstlineno}"
    lines = [line for one in users for line in traceback.format_stack(one, limit=1)]
    return ActiveCall(node, place, "".join(lines).rstrip())
