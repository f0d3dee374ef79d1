"""What an application has to be allowed: the list suffices, and nothing of it can be left out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from typer.testing import CliRunner

from logstate import Application, LogstateError, StreamsBuilder, Topology, TumblingWindows
from logstate.admin.needed_acls import NeededAcl, needed_acls
from logstate.cli.main import app as command
from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import BrokerError, StoreUnavailableError
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from logstate.local_broker.broker import LocalBroker
from logstate.local_broker.secured import client_settings
from tests.broker.acl_bindings import binding
from tests.patience import until

USER, PASSWORD = "shop", "shop-secret"
WHO = f"User:{USER}"


def topology() -> Topology:
    """Every kind of topic: read, written, between sub-topologies, changelogs of two kinds, and a
    source that is a changelog.
    """
    builder = StreamsBuilder()
    prices = builder.table("prices", key=str, value=str, store="prices")
    sales = builder.stream("sales", key=str, value=str).group_by(
        lambda _, product: product, key=str, name="by-product"
    )
    counts = sales.count(store="counts")
    counts.to_stream().to("totals")
    windows = TumblingWindows(size=timedelta(milliseconds=10), grace=timedelta(0))
    sales.windowed_by(windows).count(store="per-10ms")
    prices.to_stream().to("changes")
    return builder.build("all")


def needed(application_id: str) -> list[NeededAcl]:
    return needed_acls(topology(), application_id, serves=True)


class Secured:
    """A broker that refuses whatever it was not told to allow."""

    def __init__(self, broker: LocalBroker) -> None:
        self.broker = broker
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        self.cluster = KafkaCluster(broker.bootstrap)
        self.sales = 0
        owner = self.cluster.admin()
        names = ("prices", "sales", "totals", "changes")
        owner.create_topics([NewTopic(name, 1, 1, {}) for name in names])
        owner.close()

    def allow_only(self, acls: Sequence[NeededAcl]) -> None:
        everything = AclBindingFilter(
            ResourceType.ANY,
            None,  # type: ignore[arg-type]
            ResourcePatternType.ANY,
            WHO,
            None,  # type: ignore[arg-type]
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        for done in self.admin.delete_acls([everything]).values():
            done.result()
        wanted = {binding(acl, WHO) for acl in acls}
        for done in self.admin.create_acls(list(wanted)).values():
            done.result()
        # The controller has answered; the broker learns of it a moment later, and describes
        # the rights that it goes by itself.
        until(lambda: set(self.admin.describe_acls(everything).result()) == wanted)

    def sell(self, count: int = 20) -> None:
        """Of few products, and at times that close windows."""
        producer = self.cluster.plain_producer()
        producer.produce([ProducedRecord("prices", 0, b"p1", b"7", self.sales + 1)])
        sales = range(self.sales, self.sales + count)
        producer.produce(
            [ProducedRecord("sales", 0, b"k", b"p%d" % (n % 5), 1_000 * n + 1) for n in sales]
        )
        producer.flush()
        producer.close()
        self.sales += count

    def application(self, application_id: str, path: Path, *, is_user: bool = True) -> Application:
        broker = self.broker
        return Application(
            topology(),
            application_id=application_id,
            bootstrap=broker.bootstrap_of_users if is_user else broker.bootstrap,
            kafka=client_settings((USER, PASSWORD)) if is_user else {},
            state_dir=path,
            commit_interval=timedelta(milliseconds=20),
            serve="127.0.0.1:0",
        )

    def goes_wrong(self, app: Application) -> str:
        """Why an application cannot do its work; empty: it has counted everything."""
        try:
            with app:
                return self._watched(app)
        except LogstateError as exc:
            return str(exc)

    def _watched(self, app: Application) -> str:
        presence = app._presence
        assert presence is not None
        link = presence.link

        def told() -> list[str]:
            trouble = link.trouble or ""
            # What is told without the way out may pass: brokers that are slow, for one.
            is_refused = "logstate acls" in trouble
            is_over = is_refused or not app.is_alive or (not trouble and self._has_counted(app))
            return [trouble if is_refused else ""] if is_over else []

        return until(told, lambda: f"{app.is_ready()}, {link.trouble}")[0]  # or closing raises why

    def _has_counted(self, app: Application) -> bool:
        if not app.is_ready() or not app.tasks():
            return False
        try:
            return sum(row.value for _, row in app.store("counts").all()) == self.sales
        except StoreUnavailableError:  # it has just ended
            return False


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    with LocalBroker.start(users={USER: PASSWORD}) as broker:
        yield Secured(broker)


@pytest.fixture(scope="module")
def prepared(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An application that has run, with everything allowed."""
    secured.sell()
    path = tmp_path_factory.mktemp("prepared")
    assert not secured.goes_wrong(secured.application("shop", path, is_user=False))
    return "shop"


def test_with_the_list_an_application_starts_restarts_and_restores(
    secured: Secured, tmp_path: Path
) -> None:
    secured.allow_only(needed("market"))
    for life in ("first", "first", "elsewhere"):
        secured.sell()
        assert secured.goes_wrong(secured.application("market", tmp_path / life)) == ""


LISTED = needed("shop")
CREATED = [acl for acl in LISTED if acl.operation == "Create"]
DELETED = [acl for acl in LISTED if acl.operation == "Delete"]
USED = [acl for acl in LISTED if acl not in CREATED and acl not in DELETED]


def _id(acl: NeededAcl) -> str:
    return f"{acl.operation} {acl.resource} {acl.name}"


@pytest.mark.parametrize("missing", USED, ids=_id)
def test_without_one_of_them_the_error_names_it(
    secured: Secured, prepared: str, tmp_path: Path, missing: NeededAcl
) -> None:
    secured.allow_only([acl for acl in LISTED if acl != missing])
    secured.sell(5)
    said = secured.goes_wrong(secured.application(prepared, tmp_path))
    assert missing.name in said
    assert "logstate acls" in said


@pytest.mark.parametrize("number", range(len(CREATED)), ids=lambda n: _id(CREATED[n]))
def test_without_the_right_to_create_a_topic_the_error_names_it(
    secured: Secured, tmp_path: Path, number: int
) -> None:
    name = f"new-{number}"
    rights = needed(name)
    missing = [acl for acl in rights if acl.operation == "Create"][number]
    secured.allow_only([acl for acl in rights if acl != missing])
    secured.sell(5)
    said = secured.goes_wrong(secured.application(name, tmp_path))
    assert missing.name in said
    assert "logstate acls" in said


@pytest.mark.parametrize("right", DELETED, ids=_id)
def test_records_that_nobody_needs_are_deleted_only_with_the_right_to(
    secured: Secured, prepared: str, right: NeededAcl
) -> None:
    del prepared  # its topics are there
    user = KafkaCluster(
        secured.broker.bootstrap_of_users, client_settings((USER, PASSWORD))
    ).admin()
    before = {TopicPartition(right.name, 0): 1}
    secured.allow_only([acl for acl in LISTED if acl != right])
    with pytest.raises(BrokerError, match=right.name):
        user.delete_records(before)
    secured.allow_only(LISTED)
    user.delete_records(before)
    user.close()


def test_the_command_lists_them_for_people_and_for_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2]))
    asked = ["acls", "tests.broker.test_acls:topology", "--application-id", "shop", "--serve"]
    told = CliRunner().invoke(command, [*asked, "--json"])
    assert told.exit_code == 0, told.exception
    listed = json.loads(told.stdout)["acls"]
    assert listed == [{"principal": WHO, **acl._asdict()} for acl in LISTED]
    shown = CliRunner().invoke(command, asked).stdout
    assert "--operation Write --transactional-id shop- --resource-pattern-type prefixed" in shown
    assert "--operation Read --topic sales" in shown
    fewer = json.loads(CliRunner().invoke(command, [*asked, "--no-create", "--json"]).stdout)
    assert not [one for one in fewer["acls"] if one["operation"] == "Create"]
