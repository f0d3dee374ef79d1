"""What the manifest tells readers that do not have the application's code."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from logstate.changelog.cut import MANIFEST_KEY
from logstate.changelog.store_fingerprint import fingerprint
from logstate.changelog.stored_manifest import decode_manifest
from logstate.contracts.serde import Deserializer, Serde, Serializer
from logstate.topics.manifest import manifest, manifest_record
from logstate.topology import StreamsBuilder, TumblingWindows
from tests.unit.logstate.plans import by_word, plan_of


def windowed(builder: StreamsBuilder) -> None:
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    window = TumblingWindows(size=timedelta(seconds=5), grace=timedelta(seconds=1))
    grouped.windowed_by(window).count(store="per-second")


def test_every_store_is_described_with_topic_partitions_and_formats() -> None:
    plan = plan_of(by_word, **{"in": 3})
    (spec,) = plan.topology.sub_topologies[1].stores
    found = manifest(plan)
    assert found["version"] == 1
    assert found["application_id"] == "app"
    assert found["describe"] == plan.topology.describe()
    assert list(found["stores"]) == ["counts"]
    assert found["stores"]["counts"] == {
        **fingerprint(spec),
        "changelog_topic": "app-counts-changelog",
        "changelog_topic_id": None,
        "logged_as": "counts",
        "formerly": [],
        "partitions": 3,
        "sub_topology": 1,
        "source_topics": ["app-by-word-repartition"],
        "fed_by": [["app-by-word-repartition"]],
        "placed_by": "murmur2",
    }
    assert found["topics"] == {
        "app-by-word-repartition": {
            "partitions": 3,
            "key": spec.key.describe(),
            "value": {"format": "string", "schema": None},
        }
    }
    assert found["forgotten"] == {}


def test_windows_are_described_with_their_times() -> None:
    store = manifest(plan_of(windowed, **{"in": 1}))["stores"]["per-second"]
    assert store["kind"] == "timestamped_window"
    assert store["window_size_ms"] == 5_000
    assert store["retention_ms"] >= 6_000


def test_the_record_is_json_under_its_key_in_the_cuts_topic() -> None:
    plan = plan_of(by_word, **{"in": 3})
    record = manifest_record(plan)
    assert (record.topic, record.partition, record.key) == ("app-cuts", 0, MANIFEST_KEY)
    assert record.value is not None
    assert msgspec.json.decode(record.value) == manifest(plan)


def test_the_same_plan_gives_the_same_bytes() -> None:
    assert manifest_record(plan_of(by_word, **{"in": 3})) == manifest_record(
        plan_of(by_word, **{"in": 3})
    )


class Backwards(msgspec.Struct):
    b: int
    a: str


def test_fields_stand_in_the_order_of_their_declaration() -> None:
    def backwards(builder: StreamsBuilder) -> None:
        builder.table("in", key=str, value=Backwards, store="rows")

    record = manifest_record(plan_of(backwards, **{"in": 1}))
    assert record.value is not None

    value = msgspec.json.decode(record.value)["stores"]["rows"]["value"]

    assert list(value["schema"]["$defs"]["Backwards"]["properties"]) == ["b", "a"]


class Undescribed(Serde[str]):
    """A serde of a user that describes itself in a way that no manifest can have."""

    def __init__(self, description: Any) -> None:
        self.description = description

    def serializer(self, topic: str, is_key: bool) -> Serializer[str]:
        return str.encode

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[str]:
        return bytes.decode

    def describe(self) -> dict[str, Any]:
        if self.description is None:
            raise NotImplementedError
        return self.description  # type: ignore[no-any-return]


def test_the_topics_of_others_are_described_with_their_formats() -> None:
    def declare(builder: StreamsBuilder) -> None:
        lines = builder.stream("in", key=str, value=int)
        lines.to("out", value=Undescribed(None))
        lines.to("odd", value=Undescribed({"name": "no format"}))
        lines.to(lambda key, value, context: f"chosen-{key}")
        lines.group_by(lambda number: number, key=int, name="by").count(store="counts")
        builder.global_table("names", key=str, value=str, store="names")

    string, number = {"format": "string", "schema": None}, {"format": "int64", "schema": None}
    plan = plan_of(declare, **{"in": 1, "names": 1})
    assert manifest(plan)["formats"] == {
        "in": {"key": string, "value": number},
        "names": {"key": string, "value": string},
        "odd": {"key": string, "value": None},
        "out": {"key": string, "value": None},
    }
    assert decode_manifest(manifest_record(plan).value or b"")["formats"]["in"]["key"] == string


def test_a_manifest_without_the_formats_of_topics_is_read() -> None:
    stored = {**manifest(plan_of(by_word, **{"in": 1}))}
    del stored["formats"]
    assert decode_manifest(msgspec.json.encode(stored)) == stored
