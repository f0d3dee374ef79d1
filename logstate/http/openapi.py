"""The OpenAPI 3.1 document of an instance: its paths, with the types of each store.

Each store has separate paths, with its key as text, its time parameters and the schema of its
rows, because these differ from store to store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from importlib.metadata import version
from typing import Any, Final

from logstate.changelog.stores.kinds import kind_of
from logstate.changelog.stores.store_kind import StoreKind
from logstate.contracts.stores import StoreSpec
from logstate.serdes.schema_components import SchemaComponents
from logstate.topology.plan.plan import Topology

_TAG = "logstate"
_INTEGER: Final = {"type": "integer", "format": "int64"}
_WINDOW: Final = {"start_ms": _INTEGER, "end_ms": _INTEGER}
_POSITIONS: Final = {"type": "object", "additionalProperties": _INTEGER}
_LAG: Final = {"type": ["integer", "null"], "description": "offsets that a standby lacks"}
_ERROR: Final = {
    "type": "object",
    "properties": {"error": {"type": "string", "description": "the reason"}},
    "required": ["error"],
}
_WHY: Final = {
    "400": "the request is invalid",
    "401": "the token is missing or wrong",
    "404": "there is no such row",
    "410": "the page, or the changes, cannot be continued",
    "503": "no instance can answer now: try again",
}
_PARAMETERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "partition": {"schema": _INTEGER, "description": "the partition of the key, if it is known"},
    "at_least": {
        "schema": {"type": "array", "items": {"type": "string"}},
        "description": "topic-partition:offset, which the answer must have reached",
    },
    "standbys": {"schema": {"type": "boolean"}, "description": "standbys may answer"},
    "key": {
        "schema": {"type": "string", "enum": ["base64"]},
        "description": "keys are the base64 of their bytes",
    },
    "start": {"schema": _INTEGER, "description": "start of one window, in ms"},
    "from": {"schema": _INTEGER, "description": "first time, in ms, inclusive"},
    "to": {"schema": _INTEGER, "description": "last time, in ms, inclusive"},
    "as_of": {"schema": _INTEGER, "description": "the time of the version, in ms"},
    "index": {"schema": _INTEGER, "description": "of a list, from 0; below 0 from its end"},
    "map_key": {"schema": {"type": "string"}, "description": "a key of the map, as text"},
    "value": {"schema": {"type": "string"}, "description": "a value of the set or index"},
    "lower": {
        "schema": {"type": "string"},
        "description": "first key, or of a key its first element, inclusive",
    },
    "upper": {
        "schema": {"type": "string"},
        "description": "last key, or of a key its last element, inclusive",
    },
    "by": {"schema": {"type": "string"}, "description": "an index: value=, or lower= and upper="},
    "reverse": {"schema": {"type": "boolean"}, "description": "by an index: the last rows first"},
    "limit": {"schema": _INTEGER, "description": "the most rows of a page"},
    "continue": {"schema": {"type": "string"}, "description": "token of the next page"},
    "after": {"schema": {"type": "string"}, "description": "id of the last event that was read"},
}
_KEYED = ("partition", "key", "at_least", "standbys")
_RANGED = ("lower", "upper", "limit", "continue", "key", "at_least", "standbys")

_INDEXED = ("by", "value", "reverse")


def openapi_document(
    topology: Topology, application_id: str, *, needs_token: bool, prefix: str = ""
) -> dict[str, Any]:
    """Return the document. ``prefix`` is the path at which the instance's paths are."""
    components = SchemaComponents(prefix=f"{_TAG}.")
    paths: dict[str, Any] = {}
    for spec in (*topology.stores.values(), *topology.global_stores.values()):
        if kind_of(spec).reader is not None:
            paths |= _paths_of(spec, components)
    paths |= _of_instance()
    if needs_token:
        for path, item in paths.items():
            if path not in ("/live", "/ready"):
                item["get"]["security"] = [{_TAG: []}]
                item["get"]["responses"]["401"] = _error("401")
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": application_id,
            "version": version("logstate"),
            "description": "Queries of an application's stores.",
        },
        "servers": [{"url": prefix or "/"}],
        "paths": paths,
        "components": {"schemas": components.schemas},
    }
    if needs_token:
        found["components"]["securitySchemes"] = {_TAG: {"type": "http", "scheme": "bearer"}}
    return found


def show_in(service: Any, document: Callable[[], dict[str, Any]], prefix: str) -> None:
    """Add the paths to the OpenAPI document of a FastAPI service; others have none.

    FastAPI's documentation page calls ``service.openapi()`` for every request.
    """
    own = getattr(service, "openapi", None)
    if own is None:
        return

    @wraps(own)
    def openapi() -> dict[str, Any]:
        return _merged(own(), document(), prefix)

    service.openapi = openapi


def _merged(own: Mapping[str, Any], added: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    components = {kind: dict(one) for kind, one in own.get("components", {}).items()}
    for kind, ones in added["components"].items():
        components.setdefault(kind, {}).update(ones)
    paths = {f"{prefix}{path}": item for path, item in added["paths"].items()}
    return {**own, "paths": {**own.get("paths", {}), **paths}, "components": components}


def _paths_of(spec: StoreSpec, components: SchemaComponents) -> dict[str, Any]:
    kind, name = kind_of(spec), spec.name
    key, value = components.json(spec.key_format), components.json(spec.value_format)
    fields = _fields(kind, value)
    element = {}
    if kind.element_name and spec.element_format is not None:
        element = {kind.element_name: components.json(spec.element_format)}
    times = dict.fromkeys(one for names in kind.key_reads.values() for one in names)
    in_path = {
        "name": "key",
        "in": "path",
        "required": True,
        "schema": key,
        "description": f"a key of the store, as text ({spec.key_format['format']})",
    }
    base = f"/stores/{name}"
    found = {
        f"{base}/{{key}}": _get(
            f"{name}_key",
            f"Read a key of the {kind.name} store {name!r}",
            [in_path, *_query(*times, *_KEYED)],
            {"application/json": {"schema": _answer(kind, key, fields, element)}},
            ("400", "404", "503"),
        )
    }
    if not kind.is_versioned:  # it has no scans
        found[base] = _get(
            f"{name}_range",
            f"Read rows of the {kind.name} store {name!r}, one per line",
            _query(*kind.range_read[1], *(_INDEXED if spec.indexes else ()), *_RANGED),
            {"application/x-ndjson": {"schema": _line(kind, key, fields, element)}},
            ("400", "410", "503"),
        )
    beginning = {
        "name": "from",
        "in": "query",
        "required": False,
        "schema": {"type": "string", "enum": ["beginning"]},
        "description": "start with the oldest change",
    }
    found[f"{base}/changes"] = _get(
        f"{name}_changes",
        f"Read the committed changes of the store {name!r} as server-sent events",
        [*_query("after"), beginning],
        {"text/event-stream": {"schema": {"type": "string"}}},
        ("400", "410", "503"),
    )
    return found


def _answer(
    kind: StoreKind, key: dict[str, Any], fields: dict[str, Any], element: dict[str, Any]
) -> dict[str, Any]:
    """Return the schema of the answer for a key: one row or rows, and where they are from."""
    rows: dict[str, Any] = {}
    if "contains" in kind.key_reads:
        rows["row"] = {"type": "boolean", "description": "with value=: whether the set has it"}
        rows["rows"] = {"type": "array", "items": fields["value"]}
    elif "items" in kind.key_reads:
        rows["row"] = {**fields["value"], "description": f"with {kind.key_reads['get'][0]}="}
        rows["rows"] = {"type": "array", "items": _object({**element, **fields})}
    elif "get" in kind.key_reads or "fetch" in kind.key_reads:
        rows["row"] = _object(fields) if len(fields) > 1 else fields["value"]
    if "fetch_range" in kind.key_reads:
        start = {**_INTEGER, "description": "start of the window, in ms"}
        rows["rows"] = {"type": "array", "items": _object({"key": start, **fields})}
    elif "row" not in rows:
        rows["rows"] = {"type": "array", "items": _object({"key": key, **_WINDOW, **fields})}
    about = {
        "partition": _INTEGER,
        "host": {"type": "string", "description": "the instance that answered"},
        "positions": _POSITIONS,
        "lag": _LAG,
    }
    return {**_object({**rows, **about}), "required": list(about)}


def _line(
    kind: StoreKind, key: dict[str, Any], fields: dict[str, Any], element: dict[str, Any]
) -> dict[str, Any]:
    """Return the schema of a line of a scan: a row, or where the next rows are from, or the end."""
    window = _WINDOW if kind.range_read[1] else {}
    others: tuple[dict[str, Any], ...] = (
        {"partition": _INTEGER, "positions": _POSITIONS, "lag": _LAG},
        {"continue": {"type": "string"}},
        {"end": {"type": "boolean"}},
        {"error": {"type": "string"}},
    )
    ones = [_object({"key": key, **window, **element, **fields})]
    ones += [{**_object(dict(one)), "required": list(one)} for one in others]
    return {"anyOf": ones}


def _fields(kind: StoreKind, value: dict[str, Any]) -> dict[str, Any]:
    """Return the schemas of the fields of a row."""
    if kind.is_versioned:
        times = {"valid_from": _INTEGER, "valid_to": {"type": ["integer", "null"]}}
        return {"value": value, **times}
    if kind.name.startswith("timestamped"):
        return {"value": value, "timestamp": _INTEGER}
    return {"value": value}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _of_instance() -> dict[str, Any]:
    as_json = {"application/json": {"schema": {"type": "object"}}}
    health = {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {"ok": {"type": "boolean"}, "reason": {"type": "string"}},
                "required": ["ok", "reason"],
            }
        }
    }
    form = {
        "name": "as",
        "in": "query",
        "required": False,
        "schema": {"type": "string", "enum": ["text", "svg", "mermaid"]},
    }
    text = {"text/plain": {"schema": {"type": "string"}}}
    found = {
        "/stores": _get("stores", "List the stores, their kinds and formats", [], as_json),
        "/status": _get("status", "List the instances and tasks", [], as_json),
        "/metrics": _get("metrics", "Read the metrics, for Prometheus", [], text),
        "/topology": _get(
            "topology", "Describe or draw the topology", [form], text | {"image/svg+xml": {}}
        ),
        "/openapi.json": _get("openapi", "Read this document", [], as_json),
    }
    for path, what in (("live", "Whether a restart can help"), ("ready", "Whether it can answer")):
        found[f"/{path}"] = _get(path, what, [], health)
        found[f"/{path}"]["get"]["responses"]["503"] = {
            "description": "no, with the reason",
            "content": health,
        }
    return found


def _query(*names: str) -> list[dict[str, Any]]:
    return [{"name": one, "in": "query", "required": False, **_PARAMETERS[one]} for one in names]


def _get(
    name: str,
    summary: str,
    parameters: list[dict[str, Any]],
    content: Mapping[str, Any],
    statuses: tuple[str, ...] = (),
) -> dict[str, Any]:
    return {
        "get": {
            "operationId": f"{_TAG}_{name}",
            "tags": [_TAG],
            "summary": summary,
            "parameters": parameters,
            "responses": {
                "200": {"description": "the answer", "content": content},
                **{status: _error(status) for status in statuses},
            },
        }
    }


def _error(status: str) -> dict[str, Any]:
    content = {"application/json": {"schema": _ERROR}}
    return {"description": _WHY[status], "content": content}
