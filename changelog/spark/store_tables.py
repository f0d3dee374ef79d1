"""Several stores of an application as tables that belong together."""

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
    """Stores at one cut: per task, all of them as they were at the same commit.

    All that have a changelog, if none are named. ``options`` are those of the format, for each of
    them; ``cut`` among them is a cut of before, or the name of one, in place of the newest.
    ``kafka`` is client configuration (librdkafka names). The active Spark session is used, or one
    is made.

    Raises as ``latest_cut`` does::

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
    """One cut for the whole session: stores as temporary views, for SQL; returns their names.

    Everything that is asked of the views is answered at one cut, until this is called again.
    ``prefix`` goes before the names of the stores, in which ``-`` and ``.`` become ``_``. The rest
    is as for ``tables``, and so is what is raised; and ConfigError where two stores would have one
    view::

        temp_views("shop", bootstrap="localhost:9092")
        spark.sql("SELECT * FROM spend JOIN visits USING (key)")
    """
    found = tables(application, stores, bootstrap=bootstrap, kafka=kafka, **options)
    names = view_names(found, prefix)
    for store, table in found.items():
        table.createOrReplaceTempView(names[store])
    return list(names.values())


def view_names(stores: Iterable[str], prefix: str = "") -> dict[str, str]:
    """Store to the name of its view. Raises ConfigError where two would have the same.

    >>> view_names(["spend-per.user"], "my_")
    {'spend-per.user': 'my_spend_per_user'}
    """
    names: dict[str, str] = {}
    by_view: dict[str, str] = {}
    for store in stores:
        name = prefix + store.replace("-", "_").replace(".", "_")
        other = by_view.setdefault(name.lower(), store)  # to Spark a is A
        if other != store:
            raise ConfigError(
                f"stores {other!r} and {store!r} would both be the view {name!r}, and one of them"
                " would answer for the other. Name the stores that are wanted, and make the views"
                " of these two in two calls, with another prefix= each"
            )
        names[store] = name
    return names


def _stores(config: Mapping[str, str], application: str, cut: str) -> list[str]:
    if is_cut_name(cut):
        return list(find_cut(config, application, cut).stores)
    manifest, _ = read_manifest(config, application)
    return [name for name, entry in manifest["stores"].items() if entry.get("changelog_topic")]
