"""The application that is measured.

Run ``python -m tests.campaigns.soak.flow BOOTSTRAP STATE_DIR ADDRESS``.

A windowed count with ``suppress``, a session count, a stream join and a count, of the same records.
It prints one JSON object a second: what only the process itself knows of its memory.
"""

from __future__ import annotations

import ctypes
import gc
import json
import signal
import sys
import threading
from datetime import timedelta

from logstate import (
    Application,
    JoinWindows,
    SessionWindows,
    StreamsBuilder,
    Topology,
    TumblingWindows,
    until_window_closes,
)

APPLICATION = "soak"
CLICKS, VIEWS = "clicks", "views"
OUTPUTS = ("closed", "sessions", "paired", "counts")
STORES = ("windows", "visits", "totals")
_SECOND = timedelta(seconds=1)
_LOOK_S = 1.0


class _Mallinfo(ctypes.Structure):
    """``struct mallinfo2``."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def topology() -> Topology:
    """Windows of ten seconds, sessions with a gap of five, pairs within five."""
    builder = StreamsBuilder()
    clicks = builder.stream(CLICKS, key=str, value=str)
    views = builder.stream(VIEWS, key=str, value=str)
    grouped = clicks.group_by_key()
    windows = TumblingWindows(size=10 * _SECOND, grace=2 * _SECOND)
    closed = grouped.windowed_by(windows).count(store="windows")
    (
        closed.suppress(until_window_closes(), name="until-closed")
        .to_stream(lambda key, _: key.key, key=str)
        .to("closed", value=int)
    )
    sessions = SessionWindows(gap=5 * _SECOND, grace=2 * _SECOND)
    (
        grouped.windowed_by(sessions)
        .count(store="visits")
        .to_stream(lambda key, _: key.key, key=str)
        .to("sessions", value=int)
    )
    within = JoinWindows(before=5 * _SECOND, after=5 * _SECOND, grace=2 * _SECOND)
    clicks.join(views, lambda click, view: click + view, windows=within, name="pairs").to(
        "paired", value=str
    )
    grouped.count(store="totals").to_stream().to("counts", value=int)
    return builder.build()


def tracked_objects() -> int:
    """Return the number of objects that the garbage collector tracks.

    ``gc.get_objects()`` holds a reference to each of them. A tuple that another thread is filling
    then fails with ``SystemError: bad argument to internal function``.
    """
    gc.freeze()
    count = gc.get_freeze_count()
    gc.unfreeze()
    return count


def memory() -> dict[str, int]:
    """What the process knows of itself; a collection first, so that garbage does not count."""
    from logstate.changelog.backend.rocks import shared_memory

    gc.collect()
    return {
        "objects": tracked_objects(),
        "allocated_blocks": sys.getallocatedblocks(),
        "block_cache_bytes": shared_memory().used_bytes(),
        **_heap(),
    }


def _heap() -> dict[str, int]:
    """Memory of malloc, in use and free; empty where the C library is not glibc."""
    try:
        mallinfo = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return {}
    mallinfo.restype = _Mallinfo
    found = mallinfo()
    return {"heap_used_bytes": found.uordblks + found.hblkhd, "heap_free_bytes": found.fordblks}


def main() -> None:
    """Run until SIGTERM."""
    bootstrap, state_dir, address = sys.argv[1:]
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    application = Application(
        topology(),
        application_id=APPLICATION,
        bootstrap=bootstrap,
        state_dir=state_dir,
        serve=address,
    )
    with application:
        application.wait_until_running()
        while application.is_alive and not ended.wait(_LOOK_S):
            print(json.dumps(memory()), flush=True)


if __name__ == "__main__":
    main()
