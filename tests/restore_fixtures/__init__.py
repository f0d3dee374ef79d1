"""The fourteen logs that every restore must survive, on the fake cluster and on a real broker.

``cases.py`` has one function per fixture; ``bench.py`` what they work with. The fast tier runs them
on the fake cluster (test_fake_cluster.py), the broker tier on Kafka
(tests/broker/test_restore_fixtures.py).
"""
