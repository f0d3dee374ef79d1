"""``logstate asyncapi``: the topics of a topology as an AsyncAPI document."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from logstate.cli.shared.options import APPLICATION, Target, TopicPrefix
from logstate.cli.shared.printing import print_text


def asyncapi(
    target: Target,
    title: Annotated[
        str | None,
        typer.Option(envvar=APPLICATION, help="Title; the topology's place if it is not given."),
    ] = None,
    api_version: Annotated[str, typer.Option(help="Version of the document.")] = "1.0.0",
    topic_prefix: TopicPrefix = "",
) -> None:
    """Print the AsyncAPI document of a topology's topics: their keys, values and schemas.

    Example: `logstate asyncapi spending:topology --title spending > asyncapi.json`. Inputs are
    received and outputs sent; internal topics are left out.
    """
    from logstate.topics.asyncapi import asyncapi_document
    from logstate.topology.dsl.topology_target import load_topology

    topology = load_topology(target).with_topic_prefix(topic_prefix)
    document = asyncapi_document(topology, title or target, api_version)
    print_text(json.dumps(document, indent=2, ensure_ascii=False))
