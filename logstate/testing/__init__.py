"""Testing topologies and applications without a broker.

:class:`logstate.testing.driver.TopologyTestDriver` runs a topology synchronously on test records.
:class:`logstate.testing.fake.cluster.FakeCluster` is an in-memory cluster for whole applications.
"""

from logstate.testing.driver import TopologyTestDriver
from logstate.testing.fake.cluster import FakeCluster
from logstate.testing.fake.faults import Fault
from logstate.testing.fake.process import FakeProcess, ProcessKilled

__all__ = ["FakeCluster", "FakeProcess", "Fault", "ProcessKilled", "TopologyTestDriver"]
