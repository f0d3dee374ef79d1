"""Options about a log without a manifest, such as a Kafka Streams application's.

The result has the form of a store's entry in a manifest.
"""

from __future__ import annotations

import json
from typing import Any

from logstate.changelog.reading.ddl import schema_of_ddl
from logstate.changelog.reading.options import SourceOptions
from logstate.contracts.errors import ConfigError

_SCHEMA_FORMATS = ("json", "json_schema", "avro")

#: headers in which Confluent's serializers can put the schema id of a key or value
_FRAME_HEADERS = {"key": "__key_schema_id", "value": "__value_schema_id"}


def given_entry(options: SourceOptions) -> dict[str, Any]:
    """Return the store as the options describe it: by default keys and values are bytes."""
    kind = options.store_kind or "key_value"
    return {
        "kind": "window" if kind == "join_window" else kind,
        "key": None,
        "value": None,
        "window_size_ms": options.window_size_ms,
        "retain_duplicates": kind == "join_window",
    }


def given_sides(options: SourceOptions) -> dict[str, dict[str, Any]]:
    """Keys and values, where the options say what they are. Raises ConfigError."""
    sides = {
        "key": (options.key_format, options.key_schema),
        "value": (options.value_format, options.value_schema),
    }
    return {
        side: _description(side, form, schema, options)
        for side, (form, schema) in sides.items()
        if form is not None or schema is not None
    }


def _description(
    side: str, form: str | None, schema: str | None, options: SourceOptions
) -> dict[str, Any]:
    if schema is None:
        return _format_description(form)
    form = form or "json"
    if form not in _SCHEMA_FORMATS:
        raise ConfigError(
            f'{side}Schema is given and {side}Format is "{form}", which has none; those that have '
            f"one are {', '.join(_SCHEMA_FORMATS)}"
        )
    found = _format_description(form) | {"schema": _schema(side, form, schema)}
    is_framed = form == "json_schema" or (form == "avro" and bool(options.registry))
    if is_framed and options.application is None:  # others wrote it
        found["frame_header"] = _FRAME_HEADERS[side]
    if form == "avro" and is_framed:
        found |= {"framing": "confluent", "registry": options.registry.get("url")}
    return found


def _format_description(form: str | None) -> dict[str, Any]:
    return {"format": form, "is_given": True} if form == "json" else {"format": form}


def _schema(side: str, form: str, text: str) -> Any:
    if form != "avro" and not text.lstrip().startswith("{"):
        return schema_of_ddl(text)
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(
            f"{side}Schema is not JSON ({error}): a schema of {form} is a JSON document"
            + ("" if form == "avro" else ', or columns as SQL writes them: "name string, n bigint"')
        ) from error
