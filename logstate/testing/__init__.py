"""Testing topologies and applications without a broker.

:class:`logstate.testing.driver.TopologyTestDriver` runs a topology synchronously on test records.
"""

from logstate.testing.driver import TopologyTestDriver

__all__ = ["TopologyTestDriver"]
