"""The OpenAPI document is valid, and describes what an instance answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import fastapi
import jsonschema
import pytest
from fastapi.testclient import TestClient
from openapi_spec_validator import OpenAPIV31SpecValidator
from starlette.applications import Starlette

from logstate import Application, Serving, StreamsBuilder
from logstate.contracts.errors import LogstateError
from logstate.topology import (
    Materialized,
    Processor,
    SessionWindows,
    Topology,
    TumblingWindows,
    key_value_store,
)
from tests import patience
from tests.unhurried import no_silence, unhurried  # noqa: F401  for this module

HOUR = timedelta(hours=1)
TOKEN = {"Authorization": "Bearer hush"}


@dataclass
class Item:
    name: str
    cents: int


@dataclass
class Order:
    items: list[Item]
    paid: bool = False


class Remember(Processor[str, Order, str, Order]):
    def process(self, record: Any) -> None:
        self.context.store("plain").put(record.key, len(record.value.items))


def last(_before: Order, order: Order) -> Order:
    return order


def topology() -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream("orders", value=Order)
    orders.process(Remember, stores=key_value_store("plain", str, int))
    grouped = orders.group_by_key()
    grouped.count(store="counts")
    grouped.aggregate(lambda: Order([]), last, value=Order, store="last")
    grouped.windowed_by(TumblingWindows(size=HOUR)).count(store="per-hour")
    grouped.windowed_by(SessionWindows(gap=HOUR)).count(store="sessions")
    builder.table("names", key=int, value=str, store=Materialized("names", history=HOUR))
    return builder.build()


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    cluster = unhurried({"orders": 1, "names": 1})
    order = json.dumps({"items": [{"name": "tea", "cents": 250}], "paid": True}).encode()
    cluster.produce("orders", b"ada", order, timestamp=5)
    cluster.produce("names", (7).to_bytes(8, "big"), b"Ada", timestamp=5)
    serving = Serving(advertised="http://here:1/state", token="hush")
    made = Application(
        topology(),
        application_id="shop",
        bootstrap="fake:9092",
        state_dir=tmp_path_factory.mktemp("state"),
        cluster=cluster,
        serve=serving,
    )
    with made as app:
        app.wait_until_running(timedelta(seconds=patience.PATIENCE_S))
        store = app.remote_store("counts", at_least={"orders-0": 1})
        patience.until(lambda: store.get("ada") is not None)
        patience.until(lambda: app.remote_store("names").get(7) is not None)
        yield app


@pytest.fixture(scope="module")
def http(app: Application) -> Iterator[TestClient]:
    service = Starlette()
    service.mount("/state", app.asgi())
    with TestClient(service, headers=TOKEN) as client:
        yield client


def check(document: dict[str, Any], operation: dict[str, Any], answer: Any, kind: str) -> None:
    """Raise ValidationError for an answer that is not as the document describes."""
    schema = operation["responses"]["200"]["content"][kind]["schema"]
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(
        answer
    )


def test_the_document_is_valid_openapi_with_a_prefix_and_a_token(http: TestClient) -> None:
    found = http.get("/state/openapi.json").json()
    OpenAPIV31SpecValidator(found).validate()
    assert found["servers"] == [{"url": "/state"}]
    assert found["info"]["title"] == "shop"
    assert found["paths"]["/stores"]["get"]["security"] == [{"logstate": []}]
    assert "security" not in found["paths"]["/ready"]["get"]
    assert http.get("/state/openapi.json", headers={"Authorization": ""}).status_code == 401


def test_without_a_token_no_security_is_required(tmp_path: Path) -> None:
    app = Application(
        topology(),
        application_id="shop",
        bootstrap="localhost:1",
        state_dir=tmp_path,
        serve="127.0.0.1:0",
    )
    found = app.openapi()
    OpenAPIV31SpecValidator(found).validate()
    assert "securitySchemes" not in found["components"]
    assert all("security" not in item["get"] for item in found["paths"].values())


def answer_and_schema(http: TestClient, app: Application, path: str) -> tuple[Any, Any]:
    """The answer for a key of a store, which is checked, and the schema that describes it."""
    document, store = app.openapi(), path.partition("/")[0]
    operation = document["paths"][f"/stores/{store}/{{key}}"]["get"]
    answer = http.get(f"/state/stores/{path}").json()
    check(document, operation, answer, "application/json")
    return answer, operation["responses"]["200"]["content"]["application/json"]["schema"]


@pytest.mark.parametrize(
    "path", ["counts/ada", "last/ada", "plain/ada", "per-hour/ada?start=0", "names/7"]
)
def test_the_row_of_a_key_is_as_the_document_describes(
    http: TestClient, app: Application, path: str
) -> None:
    answer, schema = answer_and_schema(http, app, path)
    assert set(answer) == {"row", "partition", "host", "positions", "lag"}
    row = schema["properties"]["row"]
    if isinstance(answer["row"], dict) and "properties" in row:
        assert set(answer["row"]) == set(row["properties"])


@pytest.mark.parametrize("path", ["per-hour/ada", "sessions/ada"])
def test_the_rows_of_a_key_are_as_the_document_describes(
    http: TestClient, app: Application, path: str
) -> None:
    answer, schema = answer_and_schema(http, app, path)
    described = schema["properties"]["rows"]["items"]["properties"]
    assert [set(row) for row in answer["rows"]] == [set(described)]


@pytest.mark.parametrize("store", ["counts", "last", "plain", "per-hour", "sessions"])
def test_each_line_of_a_scan_is_as_the_document_describes(
    http: TestClient, app: Application, store: str
) -> None:
    document = app.openapi()
    operation = document["paths"][f"/stores/{store}"]["get"]
    lines = [json.loads(line) for line in http.get(f"/state/stores/{store}").text.splitlines()]
    for line in lines:
        check(document, operation, line, "application/x-ndjson")
    schema = operation["responses"]["200"]["content"]["application/x-ndjson"]["schema"]
    (row,) = [line for line in lines if "key" in line]
    assert set(row) == set(schema["anyOf"][0]["properties"])


def test_a_versioned_store_has_no_scan(http: TestClient, app: Application) -> None:
    assert "/stores/names" not in app.openapi()["paths"]
    assert "has no range()" in http.get("/state/stores/names").text


def test_a_wrong_value_does_not_fit_the_schema(app: Application) -> None:
    document = app.openapi()
    operation = document["paths"]["/stores/last/{key}"]["get"]
    wrong = {"items": [{"name": "tea", "cents": "a lot"}], "paid": True}
    answer = {"row": {"value": wrong, "timestamp": 5}, "partition": 0, "host": "", "positions": {}}
    with pytest.raises(jsonschema.ValidationError, match="'a lot' is not of type 'integer'"):
        check(document, operation, {**answer, "lag": None}, "application/json")


def test_the_parameters_of_each_path_are_those_that_it_accepts(
    http: TestClient, app: Application
) -> None:
    """A parameter that the path does not know is refused as unknown, or without a meaning."""
    for path, item in app.openapi()["paths"].items():
        if not path.startswith("/stores/") or path.endswith("/changes"):
            continue
        key = "7" if "names" in path else "ada"
        for one in item["get"]["parameters"]:
            if one["in"] == "query":
                target = f"/state{path.format(key=key)}?{one['name']}=0"
                reason = http.get(target).text
                assert "unknown query parameter" not in reason, target
                assert "has no meaning" not in reason, target


def test_the_docs_of_fastapi_show_the_paths_of_a_mounted_app(app: Application) -> None:
    service = fastapi.FastAPI(title="shop")

    @service.get("/spend/{customer}")
    def spend(customer: str) -> Order:
        return Order([])

    app.mount_in(service, "/state")
    with TestClient(service) as client:
        found = client.get("/openapi.json").json()
        assert client.get("/docs").status_code == 200
        assert client.get("/state/stores/counts/ada", headers=TOKEN).json()["row"]["value"] == 1
        again = client.get("/openapi.json").json()
    OpenAPIV31SpecValidator(found).validate()
    assert again == found
    assert {"/spend/{customer}", "/state/stores/counts/{key}", "/state/ready"} <= set(
        found["paths"]
    )
    assert found["info"]["title"] == "shop"
    # Two classes of one name: that of the service is not replaced.
    assert {"Order", "logstate.Order"} <= set(found["components"]["schemas"])


def test_a_starlette_service_has_no_document_of_its_own(app: Application) -> None:
    service = Starlette()
    app.mount_in(service, "/state")
    with TestClient(service) as client:
        assert client.get("/state/ready").json()["ok"] is True
        paths = client.get("/state/openapi.json", headers=TOKEN).json()["paths"]
    assert "/stores/counts/{key}" in paths


def test_an_application_that_serves_nothing_has_no_document(tmp_path: Path) -> None:
    app = Application(
        topology(), application_id="shop", bootstrap="localhost:1", state_dir=tmp_path
    )
    with pytest.raises(LogstateError, match=r"openapi\(\) needs the directory"):
        app.openapi()
