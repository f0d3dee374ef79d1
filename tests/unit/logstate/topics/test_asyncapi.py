"""The AsyncAPI document has the topics of a topology, with the schemas of their serdes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pydantic
import pytest

from logstate import StreamsBuilder
from logstate.serdes import avro, int32, json_schema_of, upgradable
from logstate.topics.asyncapi import asyncapi_document

AVRO = {"type": "record", "name": "Click", "fields": [{"name": "page", "type": "string"}]}


class Item(msgspec.Struct):
    name: str
    cents: int


@dataclass
class Order:
    items: list[Item]


class Model(pydantic.BaseModel):
    user: str


def document(builder: StreamsBuilder) -> dict[str, Any]:
    found = asyncapi_document(builder.build(), "shop", "2.0.0")
    check_structure(found)
    return found


def resolve(found: dict[str, Any], reference: str) -> Any:
    for part in reference.removeprefix("#/").split("/"):
        found = found[part.replace("~1", "/").replace("~0", "~")]
    return found


def references(part: Any) -> list[str]:
    if isinstance(part, list):
        return [one for each in part for one in references(each)]
    if not isinstance(part, dict):
        return []
    own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
    return own + [one for each in part.values() for one in references(each)]


def check_structure(found: dict[str, Any]) -> None:
    """What AsyncAPI 3.0 requires of the objects that the document has."""
    assert found["asyncapi"] == "3.0.0"
    assert {"title", "version"} <= set(found["info"])
    assert set(found) <= {
        *("asyncapi", "info", "defaultContentType", "channels", "operations", "components"),
    }
    for channel in found["channels"].values():
        assert set(channel) <= {"address", "messages", "bindings", "description"}
        assert channel["messages"]
        for message in channel["messages"].values():
            assert set(message) == {"title", "contentType", "payload", "bindings"}
            assert message["bindings"]["kafka"]["bindingVersion"] == "0.5.0"
    for operation in found["operations"].values():
        assert operation["action"] in ("send", "receive")
        channel = resolve(found, operation["channel"]["$ref"])
        for message in operation["messages"]:
            assert message["$ref"].startswith(operation["channel"]["$ref"] + "/messages/")
            assert resolve(found, message["$ref"]) in channel["messages"].values()
    for name in found["components"]["schemas"]:
        assert re.fullmatch(r"[a-zA-Z0-9._-]+", name)
    for reference in references(found):
        resolve(found, reference)
    json.dumps(found)


def payload(found: dict[str, Any], topic: str) -> Any:
    return found["channels"][topic]["messages"]["value"]["payload"]


def test_inputs_are_received_and_outputs_sent() -> None:
    builder = StreamsBuilder()
    builder.global_table("cities", value=str, store="cities")
    counts = builder.stream("orders", value=Order).group_by(str, key=str).count(store="n")
    counts.to_stream().to("counts")
    found = document(builder)
    actions = {
        (one["action"], one["channel"]["$ref"].rpartition("/")[2])
        for one in found["operations"].values()
    }
    # Neither the repartition topic nor the changelog.
    assert actions == {("receive", "orders"), ("receive", "cities"), ("send", "counts")}
    assert found["channels"]["orders"]["address"] == "orders"
    assert found["channels"]["orders"]["bindings"]["kafka"]["topic"] == "orders"


@pytest.mark.parametrize(
    ("serde", "content", "schema"),
    [
        (str, "text/plain", {"type": "string"}),
        (bytes, "application/octet-stream", {"type": "string", "contentEncoding": "base64"}),
        (int, "application/octet-stream", {"type": "integer", "format": "int64"}),
        (int32, "application/octet-stream", {"type": "integer", "format": "int32"}),
        (float, "application/octet-stream", {"type": "number", "format": "double"}),
        (bool, "application/octet-stream", {"type": "boolean"}),
        ("json", "application/json", {}),
        (dict, "application/json", {}),
        (Order, "application/json", {"$ref": "#/components/schemas/Order"}),
        (
            upgradable(Order, version=1, earlier={}),
            "application/octet-stream",
            {"$ref": "#/components/schemas/Order"},
        ),
    ],
)
def test_a_payload_has_the_schema_of_its_serde(
    serde: Any, content: str, schema: dict[str, Any]
) -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=serde)
    message = document(builder)["channels"]["in"]["messages"]["value"]
    described = dict(message["payload"])
    described.pop("description", None)
    assert (message["contentType"], described) == (content, schema)


def test_a_struct_in_a_struct_is_a_component_that_values_fit() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=Order)
    found = document(builder)
    schema = {**payload(found, "in"), "components": found["components"]}
    valid = jsonschema.Draft202012Validator(schema)
    valid.validate({"items": [{"name": "tea", "cents": 250}]})
    with pytest.raises(jsonschema.ValidationError):
        valid.validate({"items": [{"name": "tea"}]})


def test_a_pydantic_model_has_its_schema() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=Model)
    assert payload(document(builder), "in")["properties"]["user"]["type"] == "string"


def test_an_avro_schema_is_inline() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=avro(AVRO)).to("out")
    found = payload(document(builder), "in")
    assert found["schemaFormat"] == "application/vnd.apache.avro+json;version=1.9.0"
    assert found["schema"]["name"] == "Click"


def test_the_bytes_before_a_framed_payload_are_described() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=json_schema_of(Order, registry="mock://r"))
    assert "5 bytes of a schema's id" in payload(document(builder), "in")["description"]


def test_a_key_has_its_schema_too() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=int, value=str)
    message = document(builder)["channels"]["in"]["messages"]["value"]
    assert message["bindings"]["kafka"]["key"]["description"] == "8 bytes, big-endian"


def test_topics_of_a_pattern_or_a_function_have_no_address() -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile("a/.*"), value=str, name="all").to(lambda _, v: v, name="chosen")
    channels = document(builder)["channels"]
    assert channels["all"]["address"] is channels["chosen"]["address"] is None
    assert "matches a/.*" in channels["all"]["description"]


def test_a_topic_that_is_written_in_two_formats_has_two_messages() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    stream.to("out")
    stream.to("out")
    stream.map_values(len, value=int).to("out")
    found = document(builder)
    assert list(found["channels"]["out"]["messages"]) == ["value", "value-2"]
    assert len(found["operations"]["send-out"]["messages"]) == 2


def test_two_types_of_one_name_are_two_components() -> None:
    def another() -> type:
        class Item(msgspec.Struct):
            weight: float

        return Item

    builder = StreamsBuilder()
    builder.stream("a", value=Item)
    builder.stream("b", value=another())
    builder.stream("c", value=Item)
    found = document(builder)
    assert set(found["components"]["schemas"]) == {"Item", "Item-2"}
    assert payload(found, "a") == payload(found, "c") != payload(found, "b")


def test_the_command_prints_the_document(tmp_path: Path) -> None:
    (tmp_path / "spending.py").write_text(
        "from logstate import StreamsBuilder\n"
        "topology = StreamsBuilder()\n"
        "topology.stream('orders', value=int).to('copies')\n"
    )
    answer = subprocess.run(
        [sys.executable, "-m", "logstate", "asyncapi", "spending:topology", "--title", "spending"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    check_structure(found)
    assert found["info"] == {"title": "spending", "version": "1.0.0"}
    assert set(found["channels"]) == {"orders", "copies"}
