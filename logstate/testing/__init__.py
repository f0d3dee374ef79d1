"""Testing topologies and applications without a broker.

:class:`logstate.testing.driver.TopologyTestDriver` runs a topology synchronously on test records.
:class:`logstate.testing.fake.cluster.FakeCluster` is an in-memory cluster for whole applications.
:class:`logstate.testing.mock_processor_context.MockProcessorContext` is for one processor alone.
:func:`logstate.testing.simulation.simulate.simulate` crashes a topology at every instant.

Imports simulation, restore, task and the packages below them, never app. Start with `driver`.
"""

from logstate.testing.driver import TopologyTestDriver
from logstate.testing.fake.client import ProcessKilled
from logstate.testing.fake.cluster import FakeCluster
from logstate.testing.fake.faults import Fault
from logstate.testing.fake.process import FakeProcess
from logstate.testing.input_topic import InputTopic
from logstate.testing.mock_processor_context import MockProcessorContext
from logstate.testing.output_topic import OutputTopic
from logstate.testing.simulation.simulate import Simulation, SimulationFailed, simulate

__all__ = [
    "FakeCluster",
    "FakeProcess",
    "Fault",
    "InputTopic",
    "MockProcessorContext",
    "OutputTopic",
    "ProcessKilled",
    "Simulation",
    "SimulationFailed",
    "TopologyTestDriver",
    "simulate",
]
