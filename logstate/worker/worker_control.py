"""What is wanted of a worker, and known around it, whichever worker it is.

Set from any thread, at any time, and read by the worker with its next turn. It outlives the worker:
whoever replaces one is given the same object, so there is no moment at which a wish is copied, and
none at which one is lost.
"""

from __future__ import annotations

from logstate.restore.standby_assignor import EMPTY_GROUP


class WorkerControl:
    """See the module."""

    def __init__(self) -> None:
        #: process nothing
        self.is_paused = False
        #: who is in the group, and who was; replaced as a whole
        self.group_view = EMPTY_GROUP
        #: the other workers of the instance that have joined
        self.company: frozenset[int] = frozenset()
