"""logstate: stateful stream processing on Apache Kafka, from plain Python.

Public names are listed here and loaded on first use (PEP 562), so importing the package is fast and
needs none of its heavy libraries. The library itself never imports from here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from logstate.app.application import Application as Application
    from logstate.app.instance.health import Health as Health
    from logstate.app.instance.states import ApplicationState as ApplicationState
    from logstate.changelog.cuts.latest_cut import latest_cut as latest_cut
    from logstate.changelog.reading.store_read import read as read
    from logstate.contracts.errors import BrokerError as BrokerError
    from logstate.contracts.errors import ConfigError as ConfigError
    from logstate.contracts.errors import DeserializationError as DeserializationError
    from logstate.contracts.errors import FencedError as FencedError
    from logstate.contracts.errors import ForeignGroupError as ForeignGroupError
    from logstate.contracts.errors import LogstateError as LogstateError
    from logstate.contracts.errors import LostMemberError as LostMemberError
    from logstate.contracts.errors import ProcessingError as ProcessingError
    from logstate.contracts.errors import ProductionError as ProductionError
    from logstate.contracts.errors import RecordError as RecordError
    from logstate.contracts.errors import RefusedError as RefusedError
    from logstate.contracts.errors import RegistryError as RegistryError
    from logstate.contracts.errors import RestoreError as RestoreError
    from logstate.contracts.errors import SerdeError as SerdeError
    from logstate.contracts.errors import SnapshotError as SnapshotError
    from logstate.contracts.errors import StateDirectoryError as StateDirectoryError
    from logstate.contracts.errors import StoreAccessError as StoreAccessError
    from logstate.contracts.errors import StoreArgumentError as StoreArgumentError
    from logstate.contracts.errors import StoreCorruptedError as StoreCorruptedError
    from logstate.contracts.errors import StoreError as StoreError
    from logstate.contracts.errors import StoreUnavailableError as StoreUnavailableError
    from logstate.contracts.errors import TopicError as TopicError
    from logstate.contracts.errors import TopologyError as TopologyError
    from logstate.contracts.errors import UpgradeError as UpgradeError
    from logstate.contracts.errors import WrongThreadError as WrongThreadError
    from logstate.contracts.late_record import LateRecord as LateRecord
    from logstate.contracts.pane import Pane as Pane
    from logstate.contracts.records import Change as Change
    from logstate.contracts.records import Record as Record
    from logstate.contracts.records import RecordContext as RecordContext
    from logstate.contracts.records import RecordMetadata as RecordMetadata
    from logstate.contracts.records import Windowed as Windowed
    from logstate.contracts.rocksdb_config import RocksDbConfig as RocksDbConfig
    from logstate.contracts.serde import Serde as Serde
    from logstate.contracts.serving import Serving as Serving
    from logstate.contracts.standby_settings import StandbySettings as StandbySettings
    from logstate.contracts.stores import ValueAndTimestamp as ValueAndTimestamp
    from logstate.contracts.stores import VersionedRecord as VersionedRecord
    from logstate.directory.metadata import KeyQueryMetadata as KeyQueryMetadata
    from logstate.directory.metadata import StreamsMetadata as StreamsMetadata
    from logstate.restore.restore import RestoreProgress as RestoreProgress
    from logstate.serdes import boolean as boolean
    from logstate.serdes import bytes_ as bytes_
    from logstate.serdes import float64 as float64
    from logstate.serdes import int32 as int32
    from logstate.serdes import int64 as int64
    from logstate.serdes import json as json
    from logstate.serdes import json_of as json_of
    from logstate.serdes import ordered as ordered
    from logstate.serdes import session_windowed as session_windowed
    from logstate.serdes import string as string
    from logstate.serdes import upgradable as upgradable
    from logstate.serdes import windowed as windowed
    from logstate.task.error_handlers import Action as Action
    from logstate.task.error_handlers import Decision as Decision
    from logstate.task.error_handlers import ErrorHandlers as ErrorHandlers
    from logstate.task.error_handlers import FailedRecord as FailedRecord
    from logstate.task.error_handlers import dead_letter as dead_letter
    from logstate.task.error_handlers import fail as fail
    from logstate.task.error_handlers import retry as retry
    from logstate.task.error_handlers import skip as skip
    from logstate.testing import TopologyTestDriver as TopologyTestDriver
    from logstate.topology import Aggregate as Aggregate
    from logstate.topology import Aggregates as Aggregates
    from logstate.topology import ApproxCountDistinct as ApproxCountDistinct
    from logstate.topology import Collect as Collect
    from logstate.topology import Count as Count
    from logstate.topology import CountDistinct as CountDistinct
    from logstate.topology import CountWindows as CountWindows
    from logstate.topology import DecayedMean as DecayedMean
    from logstate.topology import DecayedSum as DecayedSum
    from logstate.topology import Ewma as Ewma
    from logstate.topology import First as First
    from logstate.topology import GlobalKTable as GlobalKTable
    from logstate.topology import HoppingWindows as HoppingWindows
    from logstate.topology import JoinWindows as JoinWindows
    from logstate.topology import KeyTimers as KeyTimers
    from logstate.topology import KGroupedStream as KGroupedStream
    from logstate.topology import KGroupedTable as KGroupedTable
    from logstate.topology import KStream as KStream
    from logstate.topology import KTable as KTable
    from logstate.topology import Last as Last
    from logstate.topology import Materialized as Materialized
    from logstate.topology import Max as Max
    from logstate.topology import Mean as Mean
    from logstate.topology import Min as Min
    from logstate.topology import Processor as Processor
    from logstate.topology import ProcessorContext as ProcessorContext
    from logstate.topology import Quantile as Quantile
    from logstate.topology import SessionWindows as SessionWindows
    from logstate.topology import SlidingWindows as SlidingWindows
    from logstate.topology import StdDev as StdDev
    from logstate.topology import StreamsBuilder as StreamsBuilder
    from logstate.topology import Sum as Sum
    from logstate.topology import TopN as TopN
    from logstate.topology import Topology as Topology
    from logstate.topology import TumblingWindows as TumblingWindows
    from logstate.topology import UnlimitedWindows as UnlimitedWindows
    from logstate.topology import ValueTransformer as ValueTransformer
    from logstate.topology import Windows as Windows
    from logstate.topology import counter_store as counter_store
    from logstate.topology import early as early
    from logstate.topology import index as index
    from logstate.topology import key_value_store as key_value_store
    from logstate.topology import list_store as list_store
    from logstate.topology import lru_store as lru_store
    from logstate.topology import map_store as map_store
    from logstate.topology import session_store as session_store
    from logstate.topology import set_store as set_store
    from logstate.topology import timer_store as timer_store
    from logstate.topology import timestamped_key_value_store as timestamped_key_value_store
    from logstate.topology import until_time_limit as until_time_limit
    from logstate.topology import until_window_closes as until_window_closes
    from logstate.topology import versioned_store as versioned_store
    from logstate.topology import window_store as window_store
    from logstate.worker.task_lag import TaskLag as TaskLag

__version__ = "0.1.0"

#: the public names by the module that each is loaded from; the imports above are for type checkers
_PUBLIC = {
    "logstate.app.application": "Application",
    "logstate.changelog.cuts.latest_cut": "latest_cut",
    "logstate.changelog.reading.store_read": "read",
    "logstate.contracts.errors": (
        "BrokerError ConfigError DeserializationError FencedError ForeignGroupError"
        " LogstateError LostMemberError ProcessingError ProductionError RecordError"
        " RefusedError RegistryError RestoreError SerdeError SnapshotError"
        " StateDirectoryError StoreAccessError StoreArgumentError StoreCorruptedError"
        " StoreError StoreUnavailableError TopicError TopologyError UpgradeError"
        " WrongThreadError"
    ),
    "logstate.contracts.late_record": "LateRecord",
    "logstate.contracts.pane": "Pane",
    "logstate.contracts.records": "Change Record RecordContext RecordMetadata Windowed",
    "logstate.contracts.serde": "Serde",
    "logstate.contracts.serving": "Serving",
    "logstate.contracts.rocksdb_config": "RocksDbConfig",
    "logstate.contracts.standby_settings": "StandbySettings",
    "logstate.contracts.stores": "ValueAndTimestamp VersionedRecord",
    "logstate.directory.metadata": "KeyQueryMetadata StreamsMetadata",
    "logstate.app.instance.health": "Health",
    "logstate.app.instance.states": "ApplicationState",
    "logstate.restore.restore": "RestoreProgress",
    "logstate.serdes": (
        "boolean bytes_ float64 int32 int64 json json_of ordered session_windowed string"
        " upgradable windowed"
    ),
    "logstate.task.error_handlers": (
        "Action Decision ErrorHandlers FailedRecord dead_letter fail retry skip"
    ),
    "logstate.testing": "TopologyTestDriver",
    "logstate.topology": (
        "Aggregate Aggregates ApproxCountDistinct Collect Count CountDistinct DecayedMean"
        " DecayedSum Ewma First Last Max"
        " Mean Min Quantile StdDev Sum TopN CountWindows GlobalKTable HoppingWindows JoinWindows"
        " KGroupedStream KGroupedTable KStream KTable KeyTimers Materialized Processor"
        " ProcessorContext SessionWindows SlidingWindows StreamsBuilder Topology TumblingWindows"
        " UnlimitedWindows ValueTransformer Windows counter_store early index key_value_store"
        " list_store lru_store map_store session_store set_store timer_store"
        " timestamped_key_value_store until_time_limit until_window_closes versioned_store"
        " window_store"
    ),
    "logstate.worker.task_lag": "TaskLag",
}
_MODULES = {name: module for module, names in _PUBLIC.items() for name in names.split()}
__all__ = sorted([*_MODULES, "__version__"])  # noqa: PLE0605  as type checkers see them above


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
