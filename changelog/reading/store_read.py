"""``logstate.read``: a store's state as Arrow, without Spark. Loads pyarrow when it is called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from logstate.changelog.reading.options import LATEST_COMMIT, parse_options
from logstate.contracts.errors import ConfigError

if TYPE_CHECKING:
    from logstate.changelog.reading.stored_table import StoredTable


def read(
    application: str,
    store: str,
    *,
    bootstrap: str,
    cut: str = LATEST_COMMIT,
    keys: Iterable[Any] | None = None,
    partition: int | None = None,
    include_tombstones: bool = False,
    include_expired: bool = False,
    include_meta: bool = False,
    times: Literal["timestamp", "ms"] = "timestamp",
    kafka: Mapping[str, str] | None = None,
    **options: str,
) -> StoredTable:
    """Return the state of a store at one cut, for any reader of Arrow: pandas, Polars, DuckDB.

    It is read from the changelog; no instance is contacted, the application may be running or not,
    and nothing is written. ``cut`` is ``latest-commit``, the newest commit of every task,
    ``latest``, everything committed, or a cut as text, such as ``latest_cut()`` gives: stores that
    are read with the same one belong together. ``keys`` are the only ones wanted. ``times`` are
    timestamps, or integers in ms. Windows that the store hides already are left out unless
    ``include_expired``. ``kafka`` is client configuration in librdkafka's names, ``options`` are
    others of Spark's format (``keyFormat``, ``valueSerde``, ``stallSeconds`` …), as text.

    The cut is fixed by this call, and the log is read each time the result is: what may have been
    compacted away since then is an error, never another state.

    Raises ConfigError if pyarrow is not installed or an option is wrong, TopicError if the
    application has never run, RestoreError if a cut cannot be read, BrokerError on no answer::

        import logstate, polars

        spend = polars.DataFrame(logstate.read("shop", "spend", bootstrap="localhost:9092"))
    """
    try:
        from logstate.changelog.reading.stored_table import StoredTable
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "pyarrow":
            raise
        raise ConfigError(
            "logstate.read gives Arrow tables, and pyarrow is not installed in this Python: "
            "pip install 'logstate[arrow]'"
        ) from None
    given: dict[str, str] = {f"kafka.{name}": value for name, value in (kafka or {}).items()}
    given |= {"bootstrap": bootstrap, "application": application, "store": store, "cut": cut}
    given |= {"includeTombstones": str(include_tombstones), "includeMeta": str(include_meta)}
    given |= {"includeExpired": str(include_expired), "times": times}
    if partition is not None:
        given["partition"] = str(partition)
    return StoredTable.of(parse_options({**given, **options}), keys)
