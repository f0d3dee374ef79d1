"""Reads that go to whoever owns the partition, over real HTTP between instances."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate.app.application import Application
from logstate.contracts.errors import (
    StoreAccessError,
    StoreArgumentError,
    StoreError,
    StoreUnavailableError,
)
from logstate.contracts.partitioner import partition_of
from logstate.contracts.records import Windowed
from logstate.contracts.serving import Serving
from logstate.directory.entries import InstanceEntry, TaskEntry, encode_entry
from logstate.directory.known_instances import KnownInstances
from logstate.http.query_handler import MisdirectedError
from logstate.http.remote_store import AsyncRemoteStore, RemoteStore
from logstate.queries.requests import CursorGoneError, ReadReply, ReadRequest
from logstate.testing import FakeCluster
from tests.patience import PATIENCE_S
from tests.unhurried import no_silence  # noqa: F401  for this module
from tests.unit.logstate.instances import (
    KEYS,
    PARTITIONS,
    caught_up,
    cluster_with,
    instance,
    send,
    shared,
    until,
)

COUNTS = {key: number + 1 for number, key in enumerate(KEYS)}
PATIENT = timedelta(seconds=PATIENCE_S)
SERVING = Serving("127.0.0.1:0", token="t0ken", page_rows=2)


class Pair:
    """Two instances that have the partitions between them."""

    def __init__(self, cluster: FakeCluster, apps: list[Application], stack: ExitStack) -> None:
        self.cluster, self.apps, self.stack = cluster, apps, stack

    def elsewhere(self, app: Application) -> str:
        """A key that another instance has."""
        here = app.store("counts").partitions
        return next(k for k in KEYS if partition_of(k.encode(), PARTITIONS) not in here)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    cluster = cluster_with()
    with ExitStack() as stack:
        apps = []
        for name in ("a", "b"):
            app = instance(cluster, tmp_path_factory.mktemp(name), serve=SERVING)
            apps.append(stack.enter_context(app))
        for app in apps:
            until(app, shared(app, 2))
            caught_up(app, cluster)
        assert len({m.host for m in apps[0].all_instances()}) == 2
        yield Pair(cluster, apps, stack)


def test_every_key_is_read_from_every_instance(pair: Pair) -> None:
    for app in pair.apps:
        store = app.remote_store("counts")
        assert {key: store.get(key).value for key in KEYS} == COUNTS
        assert store.get("nobody") is None
        hosts = {store.answer("get", key).host for key in KEYS}
        assert len(hosts) == 2, "some of them were asked over there"


def test_rows_of_all_instances_come_page_by_page(pair: Pair) -> None:
    for app in pair.apps:
        store = app.remote_store("counts")
        assert {key: row.value for key, row in store.all()} == COUNTS
        ordered = [
            key
            for partition in range(PARTITIONS)
            for key in sorted(KEYS, reverse=True)
            if partition_of(key.encode(), PARTITIONS) == partition
        ]
        assert [key for key, _ in store.reverse_all()] == ordered
        assert store.approximate_num_entries() == len(KEYS)
        some = [key for key, _ in store.range("k10", "k14")]
        assert sorted(some) == ["k10", "k11", "k12", "k13", "k14"]
        of_all = list(store.answers_of_all("all"))
        assert [answer.partition for answer in of_all] == list(range(PARTITIONS))
        assert sum(answer.positions[f"in-{answer.partition}"] for answer in of_all) == sum(
            COUNTS.values()
        )


def test_windows_come_as_they_are_in_the_store(pair: Pair) -> None:
    for app in pair.apps:
        windows = app.remote_store("per-10s")
        assert windows.fetch("k3", 0).value == 4
        assert [(start, row.value) for start, row in windows.fetch_range("k3", 0, 9)] == [(0, 4)]
        found = {window: row.value for window, row in windows.fetch_all(0, 10_000)}
        assert found == {Windowed(key, 0, 10_000): count for key, count in COUNTS.items()}


def test_a_global_store_is_answered_here(pair: Pair) -> None:
    for app in pair.apps:
        assert app.remote_store("names").get("k1").value == "Ada"
        assert [key for key, _ in app.remote_store("names").all()] == ["k1"]


def test_asyncio_has_the_same_reads(pair: Pair) -> None:
    async def reads(app: Application) -> dict[str, int]:
        store = app.async_remote_store("counts")
        assert (await store.get("k3")).value == 4
        assert await store.approximate_num_entries() == len(KEYS)
        assert {key async for key, _ in store.reverse_all()} == set(KEYS)
        return {key: row.value async for key, row in store.all()}

    assert asyncio.run(reads(pair.apps[0])) == COUNTS


def test_reads_of_asyncio_have_threads_of_their_own(pair: Pair) -> None:
    """Those of the loop are for what else a service does, which is not held up then."""
    store = pair.apps[0].async_remote_store("counts")
    let_go = threading.Event()

    async def read() -> Any:
        with ThreadPoolExecutor(1) as only:
            asyncio.get_running_loop().set_default_executor(only)
            only.submit(let_go.wait)
            try:
                return await asyncio.wait_for(store.get("k3"), PATIENCE_S)
            finally:
                let_go.set()

    assert asyncio.run(read()).value == COUNTS["k3"]


class Slow:
    """Asks others, of whom each takes so long; time passes by it alone."""

    def __init__(self, app: Application, takes_s: float) -> None:
        presence = app._presence
        assert presence is not None
        self.app, self.takes_s, self.seconds = app, takes_s, 0.0
        self._client = presence._client
        self.store = RemoteStore(
            "counts",
            presence.answers,
            self.ask,
            timedelta(seconds=1),
            {},
            wait=self.pass_time,
            now_s=lambda: self.seconds,
        )

    def pass_time(self, seconds: float) -> None:
        self.seconds += seconds

    def ask(self, host: str, request: ReadRequest, timeout_s: float) -> ReadReply:
        self.pass_time(min(timeout_s, self.takes_s))
        if timeout_s < self.takes_s:
            raise StoreUnavailableError(f"{host} says nothing")
        return self._client(host, request, PATIENCE_S)


def test_all_attempts_have_the_time_out_together(pair: Pair) -> None:
    slow = Slow(pair.apps[0], takes_s=0.7)
    slow.store._at_least = [(f"in-{number}", number, 9_999) for number in range(PARTITIONS)]
    with pytest.raises(StoreUnavailableError, match="did not respond within 1 s"):
        slow.store.get(pair.elsewhere(pair.apps[0]))
    assert slow.seconds == pytest.approx(1, abs=0.1)


def test_all_partitions_that_may_have_a_key_have_the_time_out_together(pair: Pair) -> None:
    slow = Slow(pair.apps[0], takes_s=0.6)
    slow.store._place = replace(slow.store._place, is_placed=False)
    with pytest.raises(StoreUnavailableError, match="says nothing"):
        slow.store.get("nobody")
    assert slow.seconds == pytest.approx(1, abs=0.1)


def test_a_read_of_asyncio_waits_for_a_thread_no_longer_than_its_time_out(pair: Pair) -> None:
    store = pair.apps[0].remote_store("counts", timeout=timedelta(milliseconds=20))
    let_go = threading.Event()

    async def read() -> Any:
        with ThreadPoolExecutor(1) as only:
            only.submit(let_go.wait)
            try:
                return await AsyncRemoteStore(store, only).get("k3")
            finally:
                let_go.set()

    with pytest.raises(StoreUnavailableError, match="every thread for requests"):
        asyncio.run(asyncio.wait_for(read(), PATIENCE_S))


def test_an_answer_waits_for_the_positions_that_it_has_to_have_reached(pair: Pair) -> None:
    for app in pair.apps:
        key = pair.elsewhere(app)
        partition = partition_of(key.encode(), PARTITIONS)
        before = app.remote_store("counts").answer("get", key)
        name = f"in-{partition}"
        asked = {name: before.positions[name] + 1, f"in-{(partition + 1) % PARTITIONS}": 10**9}
        soon = app.remote_store("counts", at_least=asked, timeout=timedelta(milliseconds=80))
        wanted = rf"at offset {before.positions[name]} of {name}, and at_least requires"
        # So soon, the other instance may not have answered at all.
        until(app, lambda store=soon, key=key, wanted=wanted: is_refused(store, key, wanted))
        send(pair.cluster, key)
        later = app.remote_store("counts", at_least=asked, timeout=PATIENT)
        assert later.get(key).value == before.value.value + 1
        COUNTS[key] += 1


def is_refused(store: RemoteStore, key: str, reason: str) -> bool:
    with pytest.raises(StoreUnavailableError) as caught:
        store.get(key)
    return re.search(reason, str(caught.value)) is not None


def test_a_wrong_question_is_answered_at_once(pair: Pair) -> None:
    app = pair.apps[0]
    with pytest.raises(StoreUnavailableError, match="there is no store 'count'"):
        app.remote_store("count")
    with pytest.raises(StoreArgumentError, match=r"<serde string>: str, found 7 \(int\)"):
        app.remote_store("counts").get(7)
    with pytest.raises(StoreArgumentError, match=r"range\(upper=\.\.\.\) takes .* found 7"):
        app.remote_store("counts").range("a", 7)
    with pytest.raises(StoreArgumentError, match=r"partition= takes an int.* found '0' \(str\)"):
        app.remote_store("counts").get("a", partition="0")  # type: ignore[arg-type]
    store = app.remote_store("counts")
    with pytest.raises(StoreError, match=r"has no fetch\(\)"):
        store.fetch(pair.elsewhere(app), 0)


def test_positions_that_no_task_has_are_not_waited_for(pair: Pair) -> None:
    for app in pair.apps:
        for key in map(pair.elsewhere, pair.apps):
            beyond = app.remote_store("counts", at_least={"in-99": 1}, timeout=PATIENT)
            with pytest.raises(StoreAccessError, match="has no partition 99: they are 0 to"):
                beyond.get(key)
            with pytest.raises(StoreAccessError, match="has no partition 99: they are 0 to"):
                list(beyond.all())
            partition = partition_of(key.encode(), PARTITIONS)
            read = f"the task of partition {partition} reads in-{partition}"
            other = app.remote_store("counts", at_least={f"inn-{partition}": 1}, timeout=PATIENT)
            with pytest.raises(StoreAccessError, match=read):
                other.get(key)


def asks(app: Application) -> tuple[Callable[..., Any], str, ReadRequest]:
    """A question that is right, for a partition of this instance."""
    presence = app._presence
    assert presence is not None
    partition = app.store("counts").partitions[0]
    request = ReadRequest(presence.instance, "counts", partition, "all")
    return presence.answers.reply, presence.address, request


def test_who_is_asked_says_that_it_is_not_the_owner(pair: Pair) -> None:
    first, second = pair.apps
    reply, _, request = asks(first)
    assert reply(request).rows
    with pytest.raises(MisdirectedError, match="the instance that had this address has ended"):
        reply(replace_struct(request, instance="another"))
    theirs = second.store("counts").partitions[0]
    with pytest.raises(MisdirectedError, match=r"task 0_\d belongs to http://127"):
        reply(replace_struct(request, partition=theirs))
    with pytest.raises(StoreError, match="unknown read 'put'"):
        reply(replace_struct(request, read="put"))
    with pytest.raises(CursorGoneError, match="Restart the scan"):
        reply(replace_struct(request, cursor="x"))
    with pytest.raises(StoreUnavailableError, match=r"(s old|unknown age), and max_age allow"):
        reply(replace_struct(request, max_age_ms=-1))


def replace_struct(request: ReadRequest, **changes: Any) -> ReadRequest:
    return ReadRequest(
        **{name: getattr(request, name) for name in request.__struct_fields__} | changes
    )


def test_who_has_the_rows_still_and_lost_the_task_answers_nothing(pair: Pair) -> None:
    """A zombie: nothing here has noticed, but another one has claimed the task since."""
    presence = pair.apps[0]._presence
    assert presence is not None
    _, _, request = asks(pair.apps[0])
    task = f"0_{request.partition}"
    known = KnownInstances()
    reply = replace(presence.answers, lookup=replace(presence.lookup, known=known)).reply

    def claims(name: str, number: int, offset: int) -> None:
        tasks = {task: TaskEntry(number, "running")}
        entry = InstanceEntry(name, f"http://{name}:1", 1, 10**9, tasks=tasks)
        known.heard(name, encode_entry(entry), offset, presence.lookup.now_ms())

    claims(presence.instance, 3, 0)
    assert reply(request).rows
    claims("heir", 4, 1)
    with pytest.raises(MisdirectedError, match=f"task {task} belongs to http://heir:1 now"):
        reply(request)
    claims("heir", 3, 2)
    with pytest.raises(StoreUnavailableError, match=f"task {task} is claimed by"):
        reply(request)


def test_instances_need_the_same_token(pair: Pair) -> None:
    from logstate.http.client import Client

    _, address, request = asks(pair.apps[0])
    assert Client(SERVING)(address, request, PATIENCE_S).rows
    with pytest.raises(StoreError, match="401: missing or invalid bearer token"):
        Client(replace(SERVING, token="other"))(address, request, PATIENCE_S)


def test_reads_go_on_while_an_instance_comes_and_goes(tmp_path: Path) -> None:
    """Every answer is right for a commit of its time, or an error that says why."""
    cluster = cluster_with(dict.fromkeys(KEYS, 1))
    with instance(cluster, tmp_path / "a", serve=SERVING) as first:
        until(first, shared(first, 1))
        caught_up(first, cluster)
        store = first.remote_store("counts", timeout=PATIENT)
        seen = dict.fromkeys(KEYS, 1)

        def check(sent: int) -> None:
            for key in KEYS:
                count = store.get(key).value
                assert seen[key] <= count <= sent, key
                seen[key] = count

        check(1)
        with instance(cluster, tmp_path / "b", serve=SERVING) as second:
            for key in KEYS:
                send(cluster, key)
            check(2)
            until(first, shared(first, 2))
            check(2)
            caught_up(first, cluster)
            assert {k: r.value for k, r in second.remote_store("counts").all()} == {
                k: r.value for k, r in first.remote_store("counts").all()
            }
        for key in KEYS:
            send(cluster, key)
        check(3)
        end = {f"in-{p}": len(cluster.records("in")) for p in range(PARTITIONS)}
        assert end
        until(first, shared(first, 1))
        check(3)
