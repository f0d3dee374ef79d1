"""logstate: stateful stream processing on Apache Kafka, from plain Python.

Public names are listed here and loaded on first use (PEP 562), so that importing the package costs
nothing and needs none of its heavy libraries. Inside the library nobody imports from here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from logstate.app import (
        Application,
    )
    from logstate.contracts.errors import (
        BrokerError,
        ConfigError,
        DeserializationError,
        FencedError,
        LogstateError,
        LostMemberError,
        ProcessingError,
        ProductionError,
        RecordError,
        RefusedError,
        RegistryError,
        RestoreError,
        SerdeError,
        StateDirectoryError,
        StoreCorruptedError,
        StoreError,
        StoreUnavailableError,
        TopicError,
        TopologyError,
    )
    from logstate.contracts.records import (
        Record,
        RecordMetadata,
        Windowed,
    )
    from logstate.contracts.serde import (
        Serde,
    )
    from logstate.contracts.stores import (
        ValueAndTimestamp,
        VersionedRecord,
    )
    from logstate.serdes import (
        boolean,
        bytes_,
        float64,
        int32,
        int64,
        json,
        json_of,
        session_windowed,
        string,
        windowed,
    )
    from logstate.task.error_handlers import (
        ErrorHandlers,
        FailedRecord,
        dead_letter,
        fail,
        retry,
        skip,
    )
    from logstate.testing import (
        TopologyTestDriver,
    )
    from logstate.topology import (
        GlobalKTable,
        HoppingWindows,
        JoinWindows,
        KGroupedStream,
        KGroupedTable,
        KStream,
        KTable,
        Materialized,
        Processor,
        ProcessorContext,
        SessionWindows,
        SlidingWindows,
        StreamsBuilder,
        Topology,
        TumblingWindows,
        UnlimitedWindows,
        Windows,
        key_value_store,
        session_store,
        timestamped_key_value_store,
        until_time_limit,
        until_window_closes,
        versioned_store,
        window_store,
    )

__version__ = "0.1.0"

_MODULES: dict[str, str] = {
    "Application": "logstate.app",
    "BrokerError": "logstate.contracts.errors",
    "ConfigError": "logstate.contracts.errors",
    "DeserializationError": "logstate.contracts.errors",
    "ErrorHandlers": "logstate.task.error_handlers",
    "FailedRecord": "logstate.task.error_handlers",
    "FencedError": "logstate.contracts.errors",
    "GlobalKTable": "logstate.topology",
    "HoppingWindows": "logstate.topology",
    "JoinWindows": "logstate.topology",
    "KGroupedStream": "logstate.topology",
    "KGroupedTable": "logstate.topology",
    "KStream": "logstate.topology",
    "KTable": "logstate.topology",
    "LogstateError": "logstate.contracts.errors",
    "LostMemberError": "logstate.contracts.errors",
    "Materialized": "logstate.topology",
    "ProcessingError": "logstate.contracts.errors",
    "Processor": "logstate.topology",
    "ProcessorContext": "logstate.topology",
    "ProductionError": "logstate.contracts.errors",
    "Record": "logstate.contracts.records",
    "RecordError": "logstate.contracts.errors",
    "RecordMetadata": "logstate.contracts.records",
    "RefusedError": "logstate.contracts.errors",
    "RegistryError": "logstate.contracts.errors",
    "RestoreError": "logstate.contracts.errors",
    "Serde": "logstate.contracts.serde",
    "SerdeError": "logstate.contracts.errors",
    "SessionWindows": "logstate.topology",
    "SlidingWindows": "logstate.topology",
    "StateDirectoryError": "logstate.contracts.errors",
    "StoreCorruptedError": "logstate.contracts.errors",
    "StoreError": "logstate.contracts.errors",
    "StoreUnavailableError": "logstate.contracts.errors",
    "StreamsBuilder": "logstate.topology",
    "TopicError": "logstate.contracts.errors",
    "Topology": "logstate.topology",
    "TopologyError": "logstate.contracts.errors",
    "TopologyTestDriver": "logstate.testing",
    "TumblingWindows": "logstate.topology",
    "UnlimitedWindows": "logstate.topology",
    "ValueAndTimestamp": "logstate.contracts.stores",
    "VersionedRecord": "logstate.contracts.stores",
    "Windowed": "logstate.contracts.records",
    "Windows": "logstate.topology",
    "boolean": "logstate.serdes",
    "bytes_": "logstate.serdes",
    "dead_letter": "logstate.task.error_handlers",
    "fail": "logstate.task.error_handlers",
    "float64": "logstate.serdes",
    "int32": "logstate.serdes",
    "int64": "logstate.serdes",
    "json": "logstate.serdes",
    "json_of": "logstate.serdes",
    "key_value_store": "logstate.topology",
    "retry": "logstate.task.error_handlers",
    "session_store": "logstate.topology",
    "session_windowed": "logstate.serdes",
    "skip": "logstate.task.error_handlers",
    "string": "logstate.serdes",
    "timestamped_key_value_store": "logstate.topology",
    "until_time_limit": "logstate.topology",
    "until_window_closes": "logstate.topology",
    "versioned_store": "logstate.topology",
    "window_store": "logstate.topology",
    "windowed": "logstate.serdes",
}

__all__ = [
    "Application",
    "BrokerError",
    "ConfigError",
    "DeserializationError",
    "ErrorHandlers",
    "FailedRecord",
    "FencedError",
    "GlobalKTable",
    "HoppingWindows",
    "JoinWindows",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "LogstateError",
    "LostMemberError",
    "Materialized",
    "ProcessingError",
    "Processor",
    "ProcessorContext",
    "ProductionError",
    "Record",
    "RecordError",
    "RecordMetadata",
    "RefusedError",
    "RegistryError",
    "RestoreError",
    "Serde",
    "SerdeError",
    "SessionWindows",
    "SlidingWindows",
    "StateDirectoryError",
    "StoreCorruptedError",
    "StoreError",
    "StoreUnavailableError",
    "StreamsBuilder",
    "TopicError",
    "Topology",
    "TopologyError",
    "TopologyTestDriver",
    "TumblingWindows",
    "UnlimitedWindows",
    "ValueAndTimestamp",
    "VersionedRecord",
    "Windowed",
    "Windows",
    "__version__",
    "boolean",
    "bytes_",
    "dead_letter",
    "fail",
    "float64",
    "int32",
    "int64",
    "json",
    "json_of",
    "key_value_store",
    "retry",
    "session_store",
    "session_windowed",
    "skip",
    "string",
    "timestamped_key_value_store",
    "until_time_limit",
    "until_window_closes",
    "versioned_store",
    "window_store",
    "windowed",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
