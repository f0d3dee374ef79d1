"""What to compute: the DSL and the topology it builds.

builder = StreamsBuilder()
clicks = builder.stream("clicks", value=Click)
clicks.group_by_key().count(store="clicks-per-user")
topology = builder.build()
"""

from logstate.topology.branched import BranchedKStream
from logstate.topology.builder import StreamsBuilder
from logstate.topology.cogrouped_stream import CogroupedKStream
from logstate.topology.global_table import GlobalKTable
from logstate.topology.graph import Partitioner, TimestampExtractor, TopicChooser, TopicRef
from logstate.topology.grouped_stream import KGroupedStream
from logstate.topology.grouped_table import KGroupedTable
from logstate.topology.key_timers import KeyTimers, timer_store
from logstate.topology.materialized import Materialized
from logstate.topology.plan import SubTopology, Topology
from logstate.topology.processor import Processor
from logstate.topology.processor_context import ProcessorContext
from logstate.topology.processor_stores import (
    key_value_store,
    lru_store,
    session_store,
    timestamped_key_value_store,
    versioned_store,
    window_store,
)
from logstate.topology.session_windowed_stream import SessionWindowedKStream
from logstate.topology.stream import KStream
from logstate.topology.suppressed import Suppressed, until_time_limit, until_window_closes
from logstate.topology.table import KTable
from logstate.topology.time_windowed_stream import TimeWindowedKStream
from logstate.topology.value_transformer import ValueTransformer
from logstate.topology.windowed_cogrouped_stream import WindowedCogroupedKStream
from logstate.topology.windows import (
    HoppingWindows,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
    UnlimitedWindows,
    Windows,
)

__all__ = [
    "BranchedKStream",
    "CogroupedKStream",
    "GlobalKTable",
    "HoppingWindows",
    "JoinWindows",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "KeyTimers",
    "Materialized",
    "Partitioner",
    "Processor",
    "ProcessorContext",
    "SessionWindowedKStream",
    "SessionWindows",
    "SlidingWindows",
    "StreamsBuilder",
    "SubTopology",
    "Suppressed",
    "TimeWindowedKStream",
    "TimestampExtractor",
    "TopicChooser",
    "TopicRef",
    "Topology",
    "TumblingWindows",
    "UnlimitedWindows",
    "ValueTransformer",
    "WindowedCogroupedKStream",
    "Windows",
    "key_value_store",
    "lru_store",
    "session_store",
    "timer_store",
    "timestamped_key_value_store",
    "until_time_limit",
    "until_window_closes",
    "versioned_store",
    "window_store",
]
