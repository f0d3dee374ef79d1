"""State moved to other partitions, on the real broker, by processes that are killed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from logstate import serdes
from logstate.admin.reshard import Resharded, reshard
from logstate.app.application import Application
from logstate.cli.main import app as command
from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import (
    ConfigError,
    MembersLiveError,
    StoreUnavailableError,
    UpgradeError,
)
from logstate.contracts.records import ProducedRecord, Windowed
from logstate.kafka.cluster import KafkaCluster
from logstate.topology import Materialized, StreamsBuilder, TumblingWindows
from logstate.topology.graph.nodes import SinkNode
from logstate.topology.plan.plan import Topology
from tests.broker.group_settings import expect_heartbeats_within
from tests.campaigns.resharding.story import Story, tell
from tests.patience import until

USERS = [f"user-{n}" for n in range(30)]


def test_an_application_goes_on_with_more_partitions_whenever_the_move_is_killed(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    story = Story(bootstrap, unique("moved"), tmp_path, users=40)

    figures = tell(story, records=400, kills=6)

    assert figures["killed"] == 6


class Shop:
    """Orders per user, and per item behind a repartition topic."""

    def __init__(self, bootstrap: str, name: str, path: Path) -> None:
        self.bootstrap, self.name, self.path = bootstrap, name, path
        self.cluster = KafkaCluster(bootstrap)
        self.admin = self.cluster.admin()
        expect_heartbeats_within(bootstrap, name)  # a live member is one through any pause
        self.inputs = f"{name}.orders"
        self.admin.create_topics([NewTopic(self.inputs, 2, 1, {})])
        self.orders = 0

    def topology(self) -> Topology:
        builder = StreamsBuilder()
        orders = builder.stream(self.inputs, key=str, value=str)
        orders.group_by_key().count(store="per-user")
        orders.group_by(lambda _, item: item, name="by-item", key=str).count(store="per-item")
        return builder.build()

    def order(
        self, partitioner: Callable[[str], int | None] = lambda _: None, *, at_ms: int = 1_000
    ) -> None:
        """One order of each user."""
        producer = self.cluster.plain_producer()
        records = [
            ProducedRecord(self.inputs, partitioner(user), user.encode(), b"tea", at_ms)
            for user in USERS
        ]
        producer.produce(records)
        producer.flush()
        producer.close()

    def application(self, **options: Any) -> Application:
        return Application(
            self.topology(),
            application_id=self.name,
            bootstrap=self.bootstrap,
            state_dir=self.path / "state",
            **options,
        )

    def run(self, orders: int) -> None:
        """Until each user has so many orders."""
        with self.application() as app:
            until(lambda: self.totals(app) == {"tea": orders * len(USERS)})
            assert {user: row.value for user, row in app.store("per-user").all()} == dict.fromkeys(
                USERS, orders
            )

    def totals(self, app: Application) -> dict[str, int]:
        try:
            return {item: row.value for item, row in app.store("per-item").all()}
        except StoreUnavailableError:
            return {}

    def move(self, partitions: int = 3, **options: Any) -> Resharded:
        return reshard(
            self.topology(),
            application_id=self.name,
            bootstrap=self.bootstrap,
            partitions=partitions,
            **options,
        )

    def command(self, *arguments: str) -> Result:
        (self.path / "moved_shop.py").write_text("raise SystemExit('not asked for')")
        place = ["--application-id", self.name, "--bootstrap", self.bootstrap]
        return CliRunner().invoke(command, ["reshard", "moved_shop:topology", *place, *arguments])


@pytest.fixture
def shop(bootstrap: str, unique: Callable[[str], str], tmp_path: Path) -> Shop:
    found = Shop(bootstrap, unique("shop"), tmp_path)
    found.order()
    found.run(1)
    return found


def own_topics(shop: Shop) -> set[str]:
    return {name for name in shop.admin.topic_names() if name.startswith(f"{shop.name}-")}


def test_state_goes_to_another_topic_with_fewer_or_more_partitions(shop: Shop) -> None:
    for partitions, orders in ((3, 2), (1, 3)):
        shop.inputs = f"{shop.name}.orders-{partitions}"
        shop.admin.create_topics([NewTopic(shop.inputs, partitions, 1, {})])
        done = shop.move(partitions)
        assert {after for _, after in done.partitions.values()} == {partitions}
        assert sum(done.records.values()) >= len(USERS)
        shop.order()
        shop.run(orders)

    changelogs = {name for name in own_topics(shop) if name.endswith("-changelog")}
    assert changelogs == {
        f"{shop.name}-g2.per-user-changelog",
        f"{shop.name}-g2.per-item-changelog",
    }
    assert shop.move(1) == Resharded()  # nothing is left to do


def test_what_would_be_lost_or_misplaced_is_refused_and_nothing_changes(shop: Shop) -> None:
    before = own_topics(shop)
    old = shop.inputs
    shop.order()  # not read
    shop.inputs = f"{shop.name}.wide"
    shop.admin.create_topics([NewTopic(shop.inputs, 3, 1, {})])
    with pytest.raises(UpgradeError, match="no longer reads this topic"):
        shop.move()
    with pytest.raises(ConfigError, match="--partitions is 5"):
        shop.move(5)
    shop.inputs = old
    shop.run(2)
    shop.inputs = f"{shop.name}.wide"
    shop.order(partitioner=lambda _: 1)
    with pytest.raises(UpgradeError, match="belongs to partition"):
        shop.move()

    assert own_topics(shop) == before
    shop.inputs = old
    shop.order()
    shop.run(3)


def test_a_move_is_refused_beside_a_live_member_and_changes_nothing(shop: Shop) -> None:
    before = own_topics(shop)
    with shop.application() as app:
        until(lambda: shop.totals(app) != {})
        with pytest.raises(MembersLiveError, match=f"group '{shop.name}' has members"):
            shop.move()

    assert own_topics(shop) == before


class WindowedShop(Shop):
    """Orders per user and ten seconds; what comes behind a window's end is late."""

    store = "old"

    def topology(self) -> Topology:
        builder = StreamsBuilder()
        orders = builder.stream(self.inputs, key=str, value=str).group_by_key()
        windows = TumblingWindows(size=timedelta(seconds=10), grace=timedelta(0))
        orders.windowed_by(windows).count(
            store=Materialized(self.store, retention=timedelta(hours=1))
        )
        return builder.build()

    def run_until(self, newest: int, **options: Any) -> set[tuple[int, int]]:
        """Until each user's newest window has so many; every (start, count) that there is."""
        with self.application(**options) as app:
            until(lambda: [n for start, n in self.windows(app) if start] == [newest] * len(USERS))
            return set(self.windows(app))

    def windows(self, app: Application) -> list[tuple[int, int]]:
        try:
            rows = app.store(self.store).all()
            return [(window.start_ms, row.value) for window, row in rows]
        except StoreUnavailableError:
            return []


def test_a_store_that_is_renamed_after_a_move_keeps_its_clock(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    shop = WindowedShop(bootstrap, unique("windows"), tmp_path)
    shop.order(at_ms=15_000)
    assert shop.run_until(1) == {(10_000, 1)}
    shop.inputs = f"{shop.name}.wide"
    shop.admin.create_topics([NewTopic(shop.inputs, 3, 1, {})])
    shop.move()
    shop.store = "counts"
    shop.order(at_ms=1_000)  # late
    shop.order(at_ms=15_000)

    assert shop.run_until(2, renamed={"old": "counts"}) == {(10_000, 2)}


class Died(Exception):
    pass


def test_an_interrupted_move_stops_starts_until_it_is_ended_or_given_up(shop: Shop) -> None:
    old = shop.inputs
    shop.inputs = f"{shop.name}.wide"
    shop.admin.create_topics([NewTopic(shop.inputs, 3, 1, {})])

    def die(step: str) -> None:
        if step == "hand over":
            raise Died

    with pytest.raises(Died):
        shop.move(on_step=die)
    with pytest.raises(UpgradeError, match=r"a reshard of application .* has not finished"):
        shop.run(1)

    assert shop.command("--partitions", "3", "--give-up").exit_code == 0

    assert not [name for name in own_topics(shop) if "-g1." in name]
    shop.inputs = old
    shop.order()
    shop.run(2)


WINDOWS = TumblingWindows(size=timedelta(seconds=1), grace=timedelta(minutes=1))


class RegroupedShop(Shop):
    """Orders per user and second, and of these so many per second, behind a repartition topic."""

    times_ms = range(1_000, 9_000, 1_000)

    def topology(self) -> Topology:
        builder = StreamsBuilder()
        orders = builder.stream(self.inputs, key=str, value=str)
        per_user = orders.group_by_key().windowed_by(WINDOWS).count(store="per-user")
        per_second = per_user.group_by(
            lambda key, count: (key._replace(key="all"), count),
            key=serdes.windowed(str, WINDOWS),
            value=int,
            name="per-second",
        )
        per_second.reduce(int.__add__, int.__sub__, store="per-second")
        return builder.build()

    def order(self, *_: Any, **__: Any) -> None:
        for time_ms in self.times_ms:
            super().order(at_ms=time_ms)

    def run(self, orders: int, *, finds_each: bool = True) -> None:
        expected = dict.fromkeys(self.times_ms, orders * len(USERS))
        with self.application() as app:
            until(lambda: self.totals(app) == expected)
            if finds_each:
                keys = [Windowed("all", start, start + 1_000) for start in expected]
                rows = [app.store("per-second").get(key) for key in keys]
                assert [row.value for row in rows] == [*expected.values()]

    def totals(self, app: Application) -> dict[Any, int]:
        try:
            return {key.start_ms: row.value for key, row in app.store("per-second").all()}
        except StoreUnavailableError:
            return {}


def test_rows_of_windowed_keys_that_an_earlier_version_placed_are_found_after_a_move(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = RegroupedShop(bootstrap, unique("windowed"), tmp_path)
    shop.order()
    with monkeypatch.context() as earlier:
        never = property(lambda _: False, lambda *_: None)
        earlier.setattr(SinkNode, "places_whole_keys", never, raising=False)
        shop.run(1, finds_each=False)  # it looked for one key in the wrong place
    with pytest.raises(UpgradeError, match="by the key inside its window"):
        shop.run(1)

    done = shop.move(partitions=2)

    assert done.partitions == {"per-second": (2, 2)}
    assert shop.move(partitions=2) == Resharded()
    shop.order()
    shop.run(2)
