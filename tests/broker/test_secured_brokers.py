"""Local brokers as strict as those in production: TLS, users, rights, on one node and on three."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from logstate import Application, StreamsBuilder, Topology
from logstate.admin.needed_acls import needed_acls
from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import BrokerError, StoreUnavailableError
from logstate.contracts.records import ProducedRecord
from logstate.kafka.cluster import KafkaCluster
from logstate.local_broker.broker import LocalBroker
from logstate.local_broker.cluster import LocalCluster
from logstate.queries.queries import QueryableStore
from tests.broker.acl_bindings import binding
from tests.patience import PATIENCE_S, until

SHORT = {"socket.timeout.ms": "3000", "message.timeout.ms": "4000"}


def counting() -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("words", key=str, value=str).group_by_key()
    words.count(store="counts").to_stream().to("totals", key=str, value=int)
    return builder.build()


def can_write(settings: Mapping[str, str]) -> bool:
    errors: list[object] = []
    producer = Producer({**settings, **SHORT})
    producer.produce("words", b"ada", key=b"ada", on_delivery=lambda e, _: errors.append(e))
    assert producer.flush(PATIENCE_S) == 0
    return all(error is None for error in errors)  # comparing one with None breaks the client


def counted(store: QueryableStore) -> int | None:
    try:
        row = store.get("ada")
    except StoreUnavailableError:  # the task is on its way
        return None
    return None if row is None else int(row.value)


def test_a_broker_with_tls_is_trusted_by_who_has_its_authority_and_by_nobody_else() -> None:
    with LocalBroker.start(tls=True) as broker:
        admin = KafkaCluster(broker.bootstrap).admin()
        admin.create_topics([NewTopic("words", 1, 1, {})])
        settings = broker.client_settings()
        assert settings["security.protocol"] == "SSL"
        until(lambda: can_write(settings))
        untrusting = {n: v for n, v in settings.items() if n != "ssl.ca.location"}
        assert not can_write(untrusting)
        broker.kill()
        broker.restart()
        until(lambda: can_write(settings))
        with pytest.raises(BrokerError, match="no user 'ada'"):
            broker.client_settings("ada")
        admin.close()


def is_allowed_to_describe(settings: Mapping[str, str], address: str, *topics: str) -> bool:
    """Whether the broker at an address knows of the right: a new client asks nobody else."""
    user = AdminClient({**settings, "bootstrap.servers": address})
    try:
        return all(user.list_topics(name, timeout=10).topics[name].error is None for name in topics)
    except KafkaException:
        return False


def test_an_application_counts_with_its_own_rights_on_three_brokers_of_which_one_dies(
    tmp_path: Path,
) -> None:
    with LocalCluster.start(users={"shop": "secret", "other": "x"}, tls=True) as cluster:
        owner = KafkaCluster(cluster.bootstrap)
        admin = owner.admin()
        admin.create_topics([NewTopic(name, 2, 3, {}) for name in ("words", "totals")])
        topology = counting()
        rights = [binding(acl, "User:shop") for acl in needed_acls(topology, "shop")]
        allowing = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for done in allowing.create_acls(rights).values():
            done.result(PATIENCE_S)
        settings = dict(cluster.client_settings("shop"))
        address = settings.pop("bootstrap.servers")
        application = Application(
            topology,
            application_id="shop",
            bootstrap=address,
            kafka=settings,
            state_dir=tmp_path,
            commit_interval=timedelta(milliseconds=50),
        )
        producer = owner.plain_producer()
        # Each broker learns of rights by itself, and any of them may be asked first.
        for one in address.split(","):
            until(lambda one=one: is_allowed_to_describe(settings, one, "words", "totals"))  # type: ignore[misc]
        with application:
            producer.produce([ProducedRecord("words", None, b"ada", b"x", n) for n in range(1, 11)])
            producer.flush()
            store = application.store("counts")
            until(lambda: counted(store) == 10)
            cluster.nodes[0].kill()
            producer.produce([ProducedRecord("words", None, b"ada", b"x", 20)])
            producer.flush()
            until(lambda: counted(store) == 11)
        assert not can_write(cluster.client_settings("other"))  # nobody allowed it
        wrong = {**cluster.client_settings("shop"), "sasl.password": "wrong", **SHORT}
        with pytest.raises(KafkaException):
            AdminClient(wrong).list_topics(timeout=3)
        producer.close()
        admin.close()
