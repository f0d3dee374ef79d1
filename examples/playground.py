"""Runs an example against a broker: makes its topics, sends what is typed, prints what comes out.

    ./dev broker start
    ./dev run python -m examples.01_word_count.app 127.0.0.1:PORT
    lines - to be or not to be

A typed line is ``topic key value``; a key of ``-`` is null, and so is a value of ``-``. Values are
the text of what the source reads: JSON for JSON, plain text for strings, a number for numbers.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from logstate import Application, Topology
from logstate.topology.graph.nodes import SinkNode, SourceNode, TopicRef

PARTITIONS = 3
_EXISTS = KafkaError.TOPIC_ALREADY_EXISTS


def play(
    topology: Topology,
    *,
    application_id: str,
    once_running: Callable[[Application], None] | None = None,
) -> None:
    """Run until the input ends. The broker's address is the first argument of the program."""
    bootstrap = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
    sources, sinks = sources_of(topology), sinks_of(topology)
    make_topics(bootstrap, [*sources, *sinks])
    app = Application(
        topology,
        application_id=application_id,
        bootstrap=bootstrap,
        state_dir="state",
    )
    is_over = threading.Event()
    reader = threading.Thread(target=print_results, args=(bootstrap, sinks, is_over))
    with app:
        app.wait_until_running()
        if once_running is not None:
            once_running(app)
        reader.start()
        print(f"type: {' | '.join(f'{topic} KEY VALUE' for topic in sources)}", file=sys.stderr)
        producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
        with contextlib.suppress(KeyboardInterrupt):
            for line in sys.stdin:
                send(producer, sources, line)
    is_over.set()
    reader.join()


def sources_of(topology: Topology) -> dict[str, SourceNode]:
    """The topics that are read from outside, with the nodes that decode them."""
    parts = (*topology.sub_topologies, *topology.global_sub_topologies)
    return {
        ref.name: source
        for part in parts
        for source in part.sources
        for ref in source.topics
        if not ref.is_internal
    }


def sinks_of(topology: Topology) -> dict[str, SinkNode]:
    """The output topics, with the nodes that encode them."""
    nodes: Iterator[Any] = (node for part in topology.sub_topologies for node in part.nodes)
    return {
        node.topic.name: node
        for node in nodes
        if isinstance(node, SinkNode)
        and isinstance(node.topic, TopicRef)
        and not node.topic.is_internal
    }


def make_topics(bootstrap: str, names: list[str]) -> None:
    """Topics that are there already are left as they are."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names])
    for answer in made.values():
        try:
            answer.result()
        except KafkaException as error:
            reason = error.args[0]
            if not isinstance(reason, KafkaError) or reason.code() != _EXISTS:
                raise


def send(producer: Producer, sources: dict[str, SourceNode], line: str) -> None:
    """One typed line to its topic."""
    topic, key, value = [*line.split(maxsplit=2), "", "", ""][:3]
    source = sources.get(topic)
    if source is None or not key:
        print(
            f"type: topic key value, with one of the topics {', '.join(sources)}", file=sys.stderr
        )
        return
    producer.produce(
        topic, key=encoded(source.key, key), value=encoded(source.value, value.strip())
    )
    producer.flush()


def encoded(serde: Any, text: str) -> bytes | None:
    """What was typed as bytes: as a JSON value if the serde takes it, else as it stands."""
    if text in {"-", ""}:
        return None
    try:
        return bytes(serde.serializer("typed", False)(json.loads(text)))
    except Exception:  # noqa: BLE001  a serde may refuse a value in any way
        return text.encode()


def print_results(bootstrap: str, sinks: dict[str, SinkNode], is_over: threading.Event) -> None:
    """What is committed on the output topics, from now on."""
    if not sinks:
        return
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "playground",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe(list(sinks))
    while not is_over.is_set():
        message = consumer.poll(0.2)
        if message is None or message.error() is not None:
            continue
        sink = sinks[message.topic() or ""]
        key, value = message.key(), message.value()
        shown_key = None if key is None else sink.key.deserializer("shown", True)(key)
        shown = None if value is None else sink.value.deserializer("shown", False)(value)
        print(f"{message.topic()}: {shown_key} = {shown}", flush=True)
    consumer.close()
