"""Three brokers as one cluster: what is written outlives the death of any one of them."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient, NewTopic

from logstate.local_broker.cluster import LocalCluster
from tests.broker.raw_topic import read_all, write
from tests.patience import PATIENCE_S


def test_what_is_written_while_a_node_is_dead_is_read_when_it_is_back() -> None:
    with LocalCluster.start(heap="256m") as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("kept", 1, 3)])["kept"].result(PATIENCE_S)
        write(cluster.bootstrap, "kept", [b"before"])
        dead = cluster.nodes[0]
        data = dead.data

        dead.kill()
        write(cluster.bootstrap, "kept", [b"meanwhile"])
        dead.restart()
        cluster.wait_until_whole()

        assert read_all(cluster.bootstrap, "kept") == [b"before", b"meanwhile"]
    assert not data.parent.exists()
