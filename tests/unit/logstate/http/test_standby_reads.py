"""Reads that a copy of a task's state answers, where the caller takes that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from logstate.app.application import Application
from logstate.contracts.errors import ConfigError, StoreUnavailableError
from logstate.contracts.partitioner import partition_of
from logstate.contracts.serving import Serving
from logstate.http.query_handler import MisdirectedError
from logstate.http.remote_store import RemoteStore, SendRequest
from logstate.queries.requests import ReadReply, ReadRequest
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


@dataclass
class Trio:
    """Three instances; each task has an owner and one copy, each partition of ``counts`` a key."""

    cluster: FakeCluster
    apps: list[Application]

    def key_of(self, owner: Application) -> str:
        here = owner.store("counts").partitions
        return next(k for k in KEYS if partition_of(k.encode(), PARTITIONS) in here)

    def with_copy(self, key: str) -> Application:
        number = partition_of(key.encode(), PARTITIONS)
        return next(app for app in self.apps if f"0_{number}" in app.standbys())


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    cluster = cluster_with()
    with ExitStack() as stack:
        apps = []
        for name in "abc":
            app = instance(
                cluster,
                tmp_path_factory.mktemp(name),
                serve=Serving("127.0.0.1:0", token="t0ken", timeout=PATIENT),
                standby_replicas=1,
                checkpoint_interval=timedelta(hours=1),  # rows of copies are shown to who reads
            )
            apps.append(stack.enter_context(app))
        for app in apps:
            until(app, shared(app, 3))
            until(app, lambda: sum(readable(one) for one in apps) == 2 * PARTITIONS)
            until(app, lambda app=app: copies_known_to(app) == PARTITIONS)
            caught_up(app, cluster)
        for app in apps:
            until(app, lambda app=app: has_copied_all(app))
        yield Trio(cluster, apps)


def copies_known_to(app: Application) -> int:
    return sum(lag is not None for one in app.all_instances() for lag in one.standbys.values())


def has_copied_all(app: Application) -> bool:
    """Whether its own rows and its copies are those of all records."""
    store = app.store("counts", standbys=True)
    here = [key for key in KEYS if partition_of(key.encode(), PARTITIONS) in store.partitions]
    found = {key: row.value for key, row in store.all()}
    return store.lag == 0 and found == {key: COUNTS[key] for key in here}


def readable(app: Application) -> int:
    return len(app.store("counts", standbys=True).partitions)


def deaf(app: Application, *hosts: str) -> SendRequest:
    """Asks others, but for owners at these addresses."""
    presence = app._presence
    assert presence is not None

    def ask(host: str, request: ReadRequest, timeout_s: float) -> ReadReply:
        if host in hosts:
            raise StoreUnavailableError(f"{host} does not respond")
        return presence._client(host, request, timeout_s)

    return ask


def remote(app: Application, *without: str, standbys: bool = True) -> RemoteStore:
    presence = app._presence
    assert presence is not None
    asks = deaf(app, *without)
    return RemoteStore("counts", presence.answers, asks, PATIENT, {}, standbys=standbys)


def test_copies_here_are_read_like_own_partitions_and_tell_their_lag(trio: Trio) -> None:
    read = {}
    for app in trio.apps:
        store = app.store("counts", standbys=True)
        own = app.store("counts").partitions
        copied = [int(task.partition("_")[2]) for task in app.standbys()]
        assert store.partitions == sorted([*own, *copied])
        assert store.lag == app.store("counts").lag == 0
        until(app, lambda store=store: store.age < timedelta(minutes=1))  # type: ignore[misc]
        read |= {key: row.value for key, row in store.all()}
        for key in KEYS:
            if partition_of(key.encode(), PARTITIONS) in copied:
                number = partition_of(key.encode(), PARTITIONS)
                request = ReadRequest("any", "counts", number, "get", (key,), standby=True)
                found = app._workers.stores.read(request)
                assert (found.value.value, found.lag, found.positions) == (COUNTS[key], 0, {})
    assert read == COUNTS


def test_without_being_asked_for_a_copy_answers_nothing(trio: Trio) -> None:
    key = trio.key_of(trio.apps[0])
    with pytest.raises(StoreUnavailableError, match="is not on this instance"):
        trio.with_copy(key).store("counts").get(key)


def test_a_copy_is_no_older_than_the_caller_allows(trio: Trio) -> None:
    key = trio.key_of(trio.apps[0])
    store = trio.with_copy(key).store("counts", standbys=True, max_age=timedelta(0))
    with pytest.raises(StoreUnavailableError, match="its task is standby"):
        store.get(key)


def test_the_copy_answers_where_the_owner_does_not_and_from_every_instance(trio: Trio) -> None:
    for owner in trio.apps:
        key, host = trio.key_of(owner), owner._presence.address  # type: ignore[union-attr]
        for app in trio.apps:
            found = remote(app, host).answer("get", key)
            assert found.value.value == COUNTS[key]
            is_owner = app is owner
            assert (found.lag is None) is is_owner
            assert (found.host == host) is is_owner


def test_rows_of_a_copy_come_page_by_page(trio: Trio) -> None:
    first, *_ = trio.apps
    hosts = [app._presence.address for app in trio.apps[1:2]]  # type: ignore[union-attr]
    assert {k: row.value for k, row in remote(first, *hosts).all()} == COUNTS


def test_the_owner_is_asked_first_and_alone_where_copies_are_not_wanted(trio: Trio) -> None:
    first, second, _ = trio.apps
    key = trio.key_of(second)
    assert remote(first).answer("get", key).lag is None
    host = second._presence.address  # type: ignore[union-attr]
    store = remote(first, host, standbys=False)
    store._timeout_s = 0.05
    with pytest.raises(StoreUnavailableError, match="does not respond"):
        store.get(key)


def test_a_copy_that_is_read_follows_without_waiting_for_a_checkpoint(trio: Trio) -> None:
    key = trio.key_of(trio.apps[2])
    copy = trio.with_copy(key)
    store = copy.store("counts", standbys=True)
    before = store.get(key).value
    send(trio.cluster, key)
    until(copy, lambda: store.get(key).value == before + 1)
    COUNTS[key] += 1


def test_an_instance_without_the_copy_says_so(trio: Trio) -> None:
    first, second, _ = trio.apps
    key = trio.key_of(first)
    partition = partition_of(key.encode(), PARTITIONS)
    copy = trio.with_copy(key)
    other = next(app for app in trio.apps if app not in (first, copy))
    presence = other._presence
    assert presence is not None
    request = ReadRequest(presence.instance, "counts", partition, "get", ("a",), standby=True)
    codec = presence.answers.codec("counts")
    arguments = codec.arguments_out("get", (key,))
    request = ReadRequest(presence.instance, "counts", partition, "get", arguments, standby=True)
    with pytest.raises((StoreUnavailableError, MisdirectedError), match="not on this instance"):
        deaf(second)(presence.address, request, PATIENCE_S)


def test_over_http_copies_are_asked_for_by_name(trio: Trio) -> None:
    host = trio.apps[0].all_instances()[0].host
    headers = {"Authorization": "Bearer t0ken"}
    key = trio.key_of(trio.apps[0])
    url = f"{host}/stores/counts/{key}"
    answer = httpx.get(url, params={"standbys": "true"}, headers=headers, timeout=PATIENCE_S).json()
    assert (answer["row"]["value"], answer["lag"]) == (COUNTS[key], None)
    for wrong, reason in (
        ({"standbys": "perhaps"}, "standbys must be true or false; got 'perhaps'"),
        ({"standbys": "true", "at_least": "in-0:1"}, "exclude each other"),
    ):
        refused = httpx.get(url, params=wrong, headers=headers, timeout=PATIENCE_S)
        assert refused.status_code == 400
        assert reason in refused.json()["error"]


def test_positions_cannot_be_asked_of_copies(trio: Trio) -> None:
    with pytest.raises(ConfigError, match="exclude each other"):
        trio.apps[0].remote_store("counts", standbys=True, at_least={"in-0": 1})


@pytest.mark.parametrize(
    ("at_least", "reason"),
    [
        ({"in": 1}, "takes offsets by 'topic-partition'; got 'in'"),
        ({("in", 0): 1}, "takes offsets by 'topic-partition'"),
        ({"in-0": -1}, "the offset of in-0 in at_least of .* must be at least 0; got -1"),
        ({"in-0": 1.5}, "the offset of in-0 in at_least of .* must be a whole number"),
    ],
)
def test_positions_that_are_none_are_refused_where_they_are_given(
    trio: Trio, at_least: dict[Any, Any], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        trio.apps[0].remote_store("counts", at_least=at_least)


# The threads of a killed process end where they are.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_rows_of_a_dead_owner_are_read_before_the_group_has_noticed(tmp_path: Path) -> None:
    cluster = cluster_with()
    places = [Serving(advertised=f"http://{name}:1") for name in "ab"]
    first = instance(cluster, tmp_path / "a", serve=places[0], standby_replicas=1)
    owner = cluster.process("owner")
    second = instance(owner, tmp_path / "b", serve=places[1], standby_replicas=1)  # type: ignore[arg-type]
    with first:
        first.wait_until_running()
        second.start()
        until(first, lambda: len(first.standbys()) == 2)
        until(first, lambda: first.standbys() == dict.fromkeys(second.tasks(), 0))
        store = first.store("counts", standbys=True)
        until(first, lambda: store.partitions == list(range(PARTITIONS)))
        sent = {key: number + 1 for number, key in enumerate(KEYS)}
        until(first, lambda: {key: row.value for key, row in store.all()} == sent)
        owner.kill()
        assert {key: store.get(key).value for key in KEYS} == sent
