"""Changes of the types of keys and values."""

from __future__ import annotations

from typing import Any

from logstate.app.application import Application
from tests.campaigns.upgrades import topologies as t
from tests.campaigns.upgrades.change import Change, counts_of_a


def total_of_a(app: Application) -> Any:
    total = counts_of_a(app)
    return None if total is None else int(total.count)


def tally_of_a(app: Application) -> Any:
    tally = counts_of_a(app)
    return None if tally is None else tally.counts


AVRO_WITH_NOTE = t.avro_schema(note={"type": "string", "default": ""})

TYPES = (
    Change(
        "a key has another type",
        t.aggregated(lambda: 0, lambda _, __, n: n + 1, int),
        t.rekeyed,
        "refused",
        ("store 'counts': key", "string", "int64"),
    ),
    Change(
        "a value has another type",
        t.aggregated(lambda: 0, lambda _, __, n: n + 1, int),
        t.aggregated(lambda: "0", lambda _, __, n: str(int(n) + 1), str),
        "refused",
        ("store 'counts': value", "stored int64, declared string"),
    ),
    Change(
        "a type has another name",
        t.totals(t.Total),
        t.totals(t.Renamed),
        "same",
        answer=total_of_a,
    ),
    Change(
        "a field with a default is added",
        t.totals(t.Total),
        t.totals(t.WithDefault),
        "compatible",
        answer=total_of_a,
    ),
    Change(
        "a field without a default is added",
        t.totals(t.Total),
        t.totals(t.WithoutDefault),
        "refused",
        ("value.note", "Give the field a default"),
        answer=total_of_a,
    ),
    Change(
        "a field is gone",
        t.totals(t.WithDefault),
        t.totals(t.Total),
        "compatible",
        answer=total_of_a,
    ),
    Change(
        "a default is taken away",
        t.totals(t.Total),
        t.totals(t.Needed),
        "refused",
        ("value.count", "no default"),
        answer=total_of_a,
    ),
    Change(
        "a field has a wider type",
        t.totals(t.Total),
        t.totals(t.Widened),
        "compatible",
        answer=total_of_a,
    ),
    Change(
        "a field has another type",
        t.totals(t.Total),
        t.totals(t.Retyped),
        "refused",
        ("value.count", "stored integer, declared string"),
        answer=total_of_a,
    ),
    Change(
        "a type gets a version, and says which one rows without are of (upgradable)",
        t.totals(t.Total),
        t.versions(t.VERSION_2_OF_ROWS_WITHOUT),
        "compatible",
        answer=tally_of_a,
        expected=(3, 1),
    ),
    Change(
        "a type gets a version, and rows without are not mentioned",
        t.totals(t.Total),
        t.versions(t.VERSION_2),
        "refused",
        ("value", "unversioned="),
        answer=total_of_a,
    ),
    Change(
        "the version of a type is raised, with an upgrade of the earlier one",
        t.versions(t.VERSION_1),
        t.versions(t.VERSION_2),
        "compatible",
        answer=tally_of_a,
        expected=(3, 1),
    ),
    Change(
        "an earlier version is not read any more",
        t.versions(t.VERSION_1),
        t.versions(t.VERSION_2_ALONE),
        "refused",
        ("value.version 1", "declared nothing"),
        answer=total_of_a,
    ),
    Change(
        "a member of an enum is inserted before others that have auto()",
        t.totals(t.with_status(t.Status)),
        t.totals(t.with_status(t.StatusInserted)),
        "refused",
        ("value.status", "stored PAID = 2, declared HELD = 2"),
        answer=total_of_a,
    ),
    Change(
        "a member of an enum is added, the others keep their values",
        t.totals(t.with_status(t.Status)),
        t.totals(t.with_status(t.StatusAdded)),
        "compatible",
        answer=total_of_a,
    ),
    Change(
        "a field of an array has another name",
        t.totals(t.in_array("credit")),
        t.totals(t.in_array("debit")),
        "refused",
        answer=total_of_a,
    ),
    Change(
        "a default changes that is omitted from rows",
        t.totals(t.omitting(5)),
        t.totals(t.omitting(7)),
        "refused",
        answer=total_of_a,
    ),
    Change(
        "an Avro schema without a registry changes",
        t.avro_total(t.avro_schema()),
        t.avro_total(AVRO_WITH_NOTE),
        "refused",
        ("value", "do not say which schema wrote them"),
        answer=lambda app: (counts_of_a(app) or {}).get("count"),
    ),
    Change(
        "an Avro schema with single_object=True gets a field with a default, also_read has the"
        " stored one",
        t.avro_total(t.avro_schema(), single_object=True),
        t.avro_total(AVRO_WITH_NOTE, single_object=True, also_read=[t.avro_schema()]),
        "compatible",
        answer=lambda app: (counts_of_a(app) or {}).get("count"),
    ),
    Change(
        "an Avro schema with single_object=True changes, also_read lacks the stored one",
        t.avro_total(t.avro_schema(), single_object=True),
        t.avro_total(AVRO_WITH_NOTE, single_object=True),
        "refused",
        ("value", "also_read="),
        answer=lambda app: (counts_of_a(app) or {}).get("count"),
    ),
    Change(
        "an Avro schema without a registry gets single_object=True",
        t.avro_total(t.avro_schema()),
        t.avro_total(t.avro_schema(), single_object=True),
        "refused",
        ("value.framing", "cannot be distinguished"),
        answer=lambda app: (counts_of_a(app) or {}).get("count"),
    ),
)
