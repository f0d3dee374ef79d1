"""Several stores of an application as tables at one cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame

from logstate.changelog.cuts.latest_cut import latest_cut
from logstate.changelog.cuts.logs import read_manifest
from logstate.changelog.cuts.named_cut import is_cut_name
from logstate.changelog.cuts.named_cuts import find_cut
from logstate.changelog.spark.session_builder import session
from logstate.contracts.errors import ConfigError


def tables(
    application: str,
    stores: Iterable[str] | None = None,
    *,
    bootstrap: str,
    kafka: Mapping[str, str] | None = None,
    **options: str,
) -> dict[str, DataFrame]:
    """Return stores at one cut: the stores of a task are all at the same commit.

    Without ``stores``, all stores with a changelog. ``options`` are options of the format for each
    of them; ``cut`` is an earlier cut or the name of one, instead of the newest. ``kafka`` is
    client configuration with librdkafka's names. The function uses the active Spark session or
    creates one.

    Raises the errors of ``latest_cut``::

        found = tables("shop", ["spend", "visits"], bootstrap="localhost:9092")
        found["spend"].join(found["visits"], "key").show()
    """
    cut = options.pop("cut", None) or latest_cut(bootstrap, application, kafka=kafka)
    given = {f"kafka.{name}": value for name, value in (kafka or {}).items()}
    reader = session().read.format("logstate").options(**given, **options)
    reader = reader.options(bootstrap=bootstrap, application=application, cut=cut)
    if stores is None:
        config = {**(kafka or {}), "bootstrap.servers": bootstrap}
        stores = _stores(config, application, cut)
    return {store: reader.option("store", store).load() for store in stores}


def temp_views(
    application: str,
    stores: Iterable[str] | None = None,
    *,
    bootstrap: str,
    kafka: Mapping[str, str] | None = None,
    prefix: str = "",
    **options: str,
) -> list[str]:
    """Create temporary views of stores at one cut, for SQL, and return their names.

    All queries of the views read this cut until the function is called again. A view's name is
    ``prefix`` and the name of the store, with ``_`` for ``-`` and ``.``. The other arguments are
    those of ``tables``.

    Raises the errors of ``tables``, and ConfigError if two stores would have the same view::

        temp_views("shop", bootstrap="localhost:9092")
        spark.sql("SELECT * FROM spend JOIN visits USING (key)")
    """
    found = tables(application, stores, bootstrap=bootstrap, kafka=kafka, **options)
    names = view_names(found, prefix)
    for store, table in found.items():
        table.createOrReplaceTempView(names[store])
    return list(names.values())


def view_names(stores: Iterable[str], prefix: str = "") -> dict[str, str]:
    """Return the view name of each store. Raise ConfigError if two are the same.

    >>> view_names(["spend-per.user"], "my_")
    {'spend-per.user': 'my_spend_per_user'}
    """
    names: dict[str, str] = {}
    by_view: dict[str, str] = {}
    for store in stores:
        name = prefix + store.replace("-", "_").replace(".", "_")
        other = by_view.setdefault(name.lower(), store)  # Spark ignores the case of names
        if other != store:
            raise ConfigError(
                f"stores {other!r} and {store!r} would both be the view {name!r}, and one of them"
                " would hide the other. Name the stores, and make the views of these two in two"
                " calls with different values of prefix="
            )
        names[store] = name
    return names


def _stores(config: Mapping[str, str], application: str, cut: str) -> list[str]:
    if is_cut_name(cut):
        return list(find_cut(config, application, cut).stores)
    manifest, _ = read_manifest(config, application)
    return [name for name, entry in manifest["stores"].items() if entry.get("changelog_topic")]
