"""Windowed keys against the bytes that Kafka Streams wrote in the recorded runs."""

import gzip
import json
import pathlib
from collections.abc import Iterator

import pytest

from logstate.contracts.errors import SerdeError
from logstate.contracts.records import Windowed
from logstate.contracts.serde import Serde
from logstate.serdes import session_windowed, windowed

VECTORS = pathlib.Path(__file__).parents[3] / "conformance" / "vectors"
FACTORIES = {
    "windowed": lambda output: windowed(str, output["window_size_ms"]),
    "session_windowed": lambda _output: session_windowed(str),
}


def recorded_keys(kind: str) -> Iterator[tuple[Serde[Windowed[str]], Windowed[str], bytes]]:
    for path in sorted(VECTORS.glob("*.json.gz")):
        vector = json.loads(gzip.decompress(path.read_bytes()))
        outputs = vector.get("outputs", {})
        for record in [one for run in vector.get("runs", ()) for one in run["output"]]:
            output = outputs[record["topic"]]
            if output["key"] == kind:
                key = record["key"]
                window = Windowed(key["key"], key["start"], key["end"])
                yield FACTORIES[kind](output), window, bytes.fromhex(record["key_hex"])


@pytest.mark.parametrize("kind", FACTORIES)
def test_keys_are_the_ones_that_kafka_streams_wrote(kind: str) -> None:
    compared = 0
    for serde, window, data in recorded_keys(kind):
        assert serde.serializer("out", is_key=True)(window) == data
        assert serde.deserializer("out", is_key=True)(data) == window
        compared += 1

    assert compared > 1_000


@pytest.mark.parametrize("size", [True, None, "10", 1.5])
def test_a_size_that_is_none_is_refused(size: object) -> None:
    with pytest.raises(SerdeError, match="length of the windows in ms, or the windows; got"):
        windowed(str, size)  # type: ignore[arg-type]
