"""What to compute: the DSL and the topology it builds.

builder = StreamsBuilder()
clicks = builder.stream("clicks", value=Click)
clicks.group_by_key().count(store="clicks-per-user")
topology = builder.build()
"""

from logstate.topology.declaring.indexes import index
from logstate.topology.declaring.windows import (
    CountWindows,
    HoppingWindows,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
    UnlimitedWindows,
    Windows,
)
from logstate.topology.dsl.aggregate_records import Aggregates
from logstate.topology.dsl.aggregates import Aggregate
from logstate.topology.dsl.builder import StreamsBuilder
from logstate.topology.dsl.decayed_aggregates import DecayedMean, DecayedSum
from logstate.topology.dsl.flow import GlobalKTable
from logstate.topology.dsl.handles import (
    BranchedKStream,
    CogroupedKStream,
    CountWindowedKStream,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    SessionWindowedKStream,
    TimeWindowedKStream,
    WindowedCogroupedKStream,
)
from logstate.topology.dsl.materialized import Materialized
from logstate.topology.dsl.numeric_aggregates import Count, Ewma, Mean, StdDev, Sum
from logstate.topology.dsl.panes import early
from logstate.topology.dsl.sketches import ApproxCountDistinct, Quantile
from logstate.topology.dsl.suppressed import Suppressed, until_time_limit, until_window_closes
from logstate.topology.dsl.value_aggregates import (
    Collect,
    CountDistinct,
    First,
    Last,
    Max,
    Min,
    TopN,
)
from logstate.topology.graph.nodes import Partitioner, TimestampExtractor, TopicChooser, TopicRef
from logstate.topology.graph.sub_topology import SubTopology
from logstate.topology.plan.plan import Topology
from logstate.topology.processor import timestamp_extractors as timestamp_extractors
from logstate.topology.processor.collection_stores import (
    counter_store,
    list_store,
    map_store,
    set_store,
)
from logstate.topology.processor.key_timers import KeyTimers, timer_store
from logstate.topology.processor.processor import Processor
from logstate.topology.processor.processor_context import ProcessorContext
from logstate.topology.processor.processor_stores import (
    key_value_store,
    lru_store,
    session_store,
    timestamped_key_value_store,
    versioned_store,
    window_store,
)
from logstate.topology.processor.value_transformer import ValueTransformer

__all__ = [
    "Aggregate",
    "Aggregates",
    "ApproxCountDistinct",
    "BranchedKStream",
    "CogroupedKStream",
    "Collect",
    "Count",
    "CountDistinct",
    "CountWindowedKStream",
    "CountWindows",
    "DecayedMean",
    "DecayedSum",
    "Ewma",
    "First",
    "GlobalKTable",
    "HoppingWindows",
    "JoinWindows",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "KeyTimers",
    "Last",
    "Materialized",
    "Max",
    "Mean",
    "Min",
    "Partitioner",
    "Processor",
    "ProcessorContext",
    "Quantile",
    "SessionWindowedKStream",
    "SessionWindows",
    "SlidingWindows",
    "StdDev",
    "StreamsBuilder",
    "SubTopology",
    "Sum",
    "Suppressed",
    "TimeWindowedKStream",
    "TimestampExtractor",
    "TopN",
    "TopicChooser",
    "TopicRef",
    "Topology",
    "TumblingWindows",
    "UnlimitedWindows",
    "ValueTransformer",
    "WindowedCogroupedKStream",
    "Windows",
    "counter_store",
    "early",
    "index",
    "key_value_store",
    "list_store",
    "lru_store",
    "map_store",
    "session_store",
    "set_store",
    "timer_store",
    "timestamped_key_value_store",
    "until_time_limit",
    "until_window_closes",
    "versioned_store",
    "window_store",
]
