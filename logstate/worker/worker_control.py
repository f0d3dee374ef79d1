"""Requests to a worker, and what is known of its group, independent of the worker's restarts.

Set from any thread at any time, and read by the worker in its next turn. It outlives the worker:
the next worker receives the same object, so no request is copied or lost.
"""

from __future__ import annotations

from logstate.restore.standby_assignor import EMPTY_GROUP


class WorkerControl:
    """Requested and reported state of one worker."""

    def __init__(self) -> None:
        #: pause processing
        self.is_paused = False
        #: present and past members of the group; replaced as a whole
        self.group_view = EMPTY_GROUP
        #: the other workers of the instance that have joined
        self.siblings: frozenset[int] = frozenset()
