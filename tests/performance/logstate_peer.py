"""The logstate side of the comparison: every workload on the public API.

Run by the benchmark with the arguments of the other programs. Settings are the library's defaults
but for those that all programs share (commit interval, guarantee, linger).
"""

from __future__ import annotations

import argparse
import cProfile
import os
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec

from logstate import (
    Application,
    ApplicationState,
    Processor,
    Record,
    StreamsBuilder,
    Topology,
    TumblingWindows,
    Windowed,
    key_value_store,
)
from tests.performance.events import LEAST_AMOUNT, WINDOW_MS

_PROBE = b"probe"
_ALIVE_CHECK_S = 0.2


class Event(msgspec.Struct, frozen=True, gc=False):
    """Of the input only what is read: decoding skips the rest."""

    user: str
    amount: float
    ts: float


class Slim(msgspec.Struct, frozen=True, gc=False):
    """What passthrough writes."""

    user: str
    amount: float


class Spent(msgspec.Struct, frozen=True, gc=False):
    """The aggregate of a key."""

    count: int = 0
    sum: float = 0.0
    ts: float = 0.0


class WindowSpent(msgspec.Struct, frozen=True, gc=False):
    """The aggregate of a key and window, as it is written."""

    start: int
    count: int
    sum: float


class User(msgspec.Struct, frozen=True, gc=False):
    """A row of the joined table."""

    name: str
    country: str


class Enriched(msgspec.Struct, frozen=True, gc=False):
    """What the join writes."""

    user: str
    amount: float
    name: str
    country: str


class Put(Processor[str, bytes, str, bytes]):
    """Stores every value; a probe is answered with what the store holds."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.state = context.store("state")

    def process(self, record: Record[str, bytes]) -> None:
        if record.value == _PROBE:
            found = self.state.get(record.key)
            self.context.forward(record._replace(value=found or b""))
        else:
            self.state.put(record.key, record.value)


def add(spent: Spent, event: Event) -> Spent:
    """One more event of a key."""
    newest = event.ts if event.ts > spent.ts else spent.ts
    return Spent(spent.count + 1, spent.sum + event.amount, newest)


def passthrough(builder: StreamsBuilder, a: argparse.Namespace) -> None:
    """Parse JSON, keep some, write a smaller JSON."""
    (
        builder.stream(a.inp, key=str, value=Event)
        .filter(lambda event: event.amount > LEAST_AMOUNT)
        .map_values(lambda event: Slim(event.user, event.amount), value=Slim)
        .to(a.out)
    )


def count(builder: StreamsBuilder, a: argparse.Namespace) -> None:
    """Count and sum per key."""
    (
        builder.stream(a.inp, key=str, value=Event)
        .group_by_key()
        .aggregate(Spent, add, store="counts", value=Spent, emit=a.emit)
        .to_stream()
        .to(a.out)
    )


def window(builder: StreamsBuilder, a: argparse.Namespace) -> None:
    """Count and sum per key and tumbling window."""
    windows = TumblingWindows(
        size=timedelta(milliseconds=WINDOW_MS), grace=timedelta(milliseconds=WINDOW_MS // 2)
    )

    def result(key: Windowed[str], spent: Spent) -> tuple[str, WindowSpent]:
        return key.key, WindowSpent(key.start_ms, spent.count, spent.sum)

    (
        builder.stream(a.inp, key=str, value=Event)
        .group_by_key()
        .windowed_by(windows)
        .aggregate(Spent, add, store="windows", value=Spent, emit=a.emit)
        .to_stream()
        .map(result, key=str, value=WindowSpent)
        .to(a.out)
    )


def join(builder: StreamsBuilder, a: argparse.Namespace) -> None:
    """Enrich each event with its key's row of a table."""
    users = builder.table(a.table, key=str, value=User, store="users")

    def enrich(event: Event, user: User) -> Enriched:
        return Enriched(event.user, event.amount, user.name, user.country)

    builder.stream(a.inp, key=str, value=Event).join(users, enrich).to(a.out, value=Enriched)


def restore(builder: StreamsBuilder, a: argparse.Namespace) -> None:
    """A store that is filled, lost and restored."""
    (
        builder.stream(a.inp, key=str, value=bytes)
        .process(Put, stores=key_value_store("state", str, bytes), key=str, value=bytes)
        .to(a.out)
    )


_PROGRAMS: dict[str, Callable[[StreamsBuilder, argparse.Namespace], None]] = {
    "passthrough": passthrough,
    "count": count,
    "window": window,
    "join": join,
    "restore": restore,
}


def topology(a: argparse.Namespace) -> Topology:
    """The workload's topology, optimised as on the other side."""
    builder = StreamsBuilder()
    _PROGRAMS[a.workload](builder, a)
    return builder.build(optimization="all")


def application(a: argparse.Namespace) -> Application:
    """One instance, of one worker unless more are asked for."""
    return Application(
        topology(a),
        application_id=a.group,
        bootstrap=a.bootstrap,
        state_dir=a.state_dir,
        guarantee="exactly_once" if a.eos else "at_least_once",
        commit_interval=timedelta(milliseconds=a.commit_ms),
        replication_factor=1,
        kafka={"linger.ms": a.linger_ms},
        restore_listener=_note_restore,
        workers=a.workers,
    )


def mark(name: str) -> None:
    """Tell the benchmark the time, on a line of its own."""
    os.write(1, f"\n{name} {time.time() * 1000:.0f}\n".encode())


_restore_began = threading.Event()


def _note_restore(_progress: object) -> None:
    if not _restore_began.is_set():
        _restore_began.set()
        mark("RESTORE_START")


def run(app: Application, *, workers: int) -> None:
    """Run until SIGTERM. The worker has a thread of its own, so that this one can set marks."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    # Before the first record is read, so the time that counts here is rather too long: one worker
    # reads none before all of its tasks run, and the first of several none before it has joined.
    first = ApplicationState.RUNNING if workers == 1 else ApplicationState.REBALANCING
    app.on_state_change(lambda _, new: mark("FIRST") if new is first else None)
    with app:
        app.wait_until_running()
        mark("RESTORE_END")
        while app.is_alive and not ended.wait(_ALIVE_CHECK_S):
            pass


def arguments() -> argparse.Namespace:
    """The arguments that all programs take, and two of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workload", required=True, choices=sorted(_PROGRAMS))
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--in", dest="inp", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--table", default="")
    parser.add_argument("--group", required=True)
    parser.add_argument("--state-dir", required=True)
    parser.add_argument("--commit-ms", type=int, default=1000)
    parser.add_argument("--eos", action="store_true")
    parser.add_argument("--linger-ms", type=int, default=50)
    parser.add_argument("--records", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--cache-mib", type=int, help="blocks and unflushed writes of RocksDB")
    parser.add_argument("--emit", choices=("update", "commit"), default="update")
    parser.add_argument("--profile", help="write a cProfile of the worker to this file")
    return parser.parse_args()


def main() -> None:
    """Run one workload."""
    a = arguments()
    if a.cache_mib is not None:
        from logstate.changelog.backend.rocks import (
            shared_memory,  # a stateless workload needs none
        )

        bytes_max = a.cache_mib << 20
        shared_memory().resize(bytes_max)
    app = application(a)
    mark("READY")
    if not a.profile:
        run(app, workers=a.workers)
        return
    profile = cProfile.Profile()
    try:
        profile.runcall(app.run)
    finally:
        profile.dump_stats(a.profile)


if __name__ == "__main__":
    main()
