"""Query through two rebalances and a kill; the last line is JSON.

Run ``python -m tests.campaigns.queries``.

Each answer carries the positions of its commit, and is compared with the input up to them. The end
is 1 where an answer is wrong, says nothing, or never came. With ``--quiet`` nothing moves, nothing
is written, and one thread asks, by ``app.remote_store`` of a third instance: what an answer takes.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from logstate.local_broker.broker import LocalBroker
from tests.campaigns.elastic.fleet import Fleet
from tests.campaigns.elastic.flow import application
from tests.campaigns.elastic.load import TOPIC
from tests.campaigns.elastic.story import BROKER, SESSION_TIMEOUT_MS
from tests.campaigns.elastic.watcher import PARTITIONS
from tests.campaigns.queries.asker import Asker, asked_here
from tests.campaigns.queries.verdict import Verdict, judge
from tests.campaigns.toolkit.process import start_module
from tests.performance.topics import Topics

_THREADS = 4
#: for so long after its start a broker compiles what it runs, on one of the cores
_WARMING_UP_S = 60.0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.queries", description=__doc__)
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--keys", type=int, default=2_000)
    parser.add_argument("--per-second", type=int, default=1_000, help="records of the load")
    parser.add_argument("--quiet", action="store_true", help="three instances, nothing happens")
    a = parser.parse_args()
    story = run_quiet if a.quiet else run
    with tempfile.TemporaryDirectory(prefix="queries-") as path, ExitStack() as closing:
        verdict = story(Path(path), a.queries, a.keys, a.per_second, closing)
    for one in verdict.wrong[:20]:
        print(f"wrong: {one}")
    for words, times in verdict.refused.most_common(10):
        print(f"refused {times} times: {words}")
    figures = {
        "queries": verdict.right + len(verdict.wrong) + verdict.hung + verdict.refused.total(),
        "right": verdict.right,
        "wrong": len(verdict.wrong),
        "hung": verdict.hung,
        "refused": verdict.refused.total(),
        "refused_without_reason": verdict.mute,
        "local_p50_ms": verdict.percentile(verdict.local_ms, 50),
        "local_p99_ms": verdict.percentile(verdict.local_ms, 99),
        "routed_p50_ms": verdict.percentile(verdict.routed_ms, 50),
        "routed_p99_ms": verdict.percentile(verdict.routed_ms, 99),
    }
    print(json.dumps(figures, separators=(",", ":")))
    return 1 if verdict.wrong or verdict.hung or verdict.mute else 0


class Stage:
    """A broker, a load, and instances that come later."""

    def __init__(self, path: Path, keys: int, per_second: int, closing: ExitStack) -> None:
        broker = LocalBroker.start(data=path / "broker", heap="512m", properties=BROKER)
        closing.callback(broker.stop)
        self.bootstrap = broker.bootstrap
        self.topics = Topics(broker.bootstrap, PARTITIONS)
        self.topics.create(TOPIC)
        self.topics.create("app-out")
        self._load = start_module(
            "tests.campaigns.elastic.load",
            *(broker.bootstrap, keys, per_second),
            stdout=subprocess.PIPE,
            text=True,
        )
        closing.callback(self._load.kill)
        self.fleet = Fleet(broker.bootstrap, "app", path / "instances")
        closing.callback(self.fleet.close)
        self.fleet.addresses = dict(enumerate(_free_addresses(3)))

    def end_load(self) -> None:
        """Nothing is written any more."""
        self._load.terminate()
        self._load.communicate(timeout=60)


def run_quiet(path: Path, queries: int, keys: int, per_second: int, closing: ExitStack) -> Verdict:
    """Three instances, one of them in this process, and nothing else."""
    stage = Stage(path, keys, per_second, closing)
    stage.fleet.start(0, 1)
    stage.fleet.settle()
    stage.end_load()
    serve = stage.fleet.addresses[2]
    app = application(
        stage.bootstrap, "app", path / "here", standbys=0, is_static=False, serve=serve
    )
    with app:
        app.wait_until_running()
        time.sleep(_WARMING_UP_S)
        return judge(asked_here(app, keys, queries), _places(stage.topics))


def run(path: Path, queries: int, keys: int, per_second: int, closing: ExitStack) -> Verdict:
    """Two instances, a third one comes, one goes, one dies; queries all the while."""
    stage = Stage(path, keys, per_second, closing)
    fleet = stage.fleet
    fleet.start(0, 1)
    fleet.settle()
    asker = Asker(keys, _THREADS)
    asker.addresses = _of(fleet)
    asker.start()
    share = queries // 5
    asker.wait_for(share)
    fleet.start(2)
    asker.wait_for(share)
    fleet.settle()
    asker.addresses = _of(fleet)
    asker.wait_for(share)
    fleet.stop(0)
    asker.wait_for(share // 2)
    asker.addresses = _of(fleet)
    fleet.settle()
    fleet.kill(1)
    asker.wait_for(share // 2)
    asker.addresses = _of(fleet)
    print(f"one of two was killed; the group's session is {SESSION_TIMEOUT_MS} ms")
    fleet.settle()
    while len(asker.answers) < queries:
        asker.wait_for(1)
    asker.stop()
    stage.end_load()
    return judge(asker.answers, _places(stage.topics))


def _free_addresses(count: int) -> list[str]:
    with ExitStack() as open_ones:
        taken = [open_ones.enter_context(socket.socket()) for _ in range(count)]
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in taken]


def _of(fleet: Fleet) -> tuple[str, ...]:
    return tuple(f"http://{fleet.addresses[number]}" for number in fleet.processes)


def _places(topics: Topics) -> dict[str, tuple[int, Sequence[int]]]:
    found: dict[str, tuple[int, list[int]]] = {}
    for message in topics.read_all(TOPIC):
        key = (message.key() or b"").decode()
        found.setdefault(key, (message.partition() or 0, []))[1].append(message.offset() or 0)
    return {key: (partition, offsets) for key, (partition, offsets) in found.items()}


if __name__ == "__main__":
    sys.exit(main())
