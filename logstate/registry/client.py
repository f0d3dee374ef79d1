"""The client of a schema registry, created from a serde's argument; the only module with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from logstate.registry.schema_registry import (
    ConfluentRegistry,
    Registry,
    client_config,
    without_credentials,
)

_mocks: dict[str, Any] = {}


def registry_of(
    registry: str | Mapping[str, Any] | Registry, schema_type: str = "AVRO"
) -> Registry:
    """Return the registry for a URL, a client configuration or a ready object.

    ``schema_type`` is the registry's name for the kind of schemas: AVRO, JSON or PROTOBUF. Raises
    ConfigError without a usable URL, ImportError if the client is not installed.
    """
    if not isinstance(registry, (str, Mapping)):
        return registry
    config = client_config(registry)
    try:
        from confluent_kafka import schema_registry
    except ImportError as error:  # pragma: no cover - depends on what is installed
        raise ImportError(
            "A schema registry needs its client: pip install 'logstate[registry]'."
        ) from error
    url = str(config["url"])
    # Through Any: the published stubs are those of an older client.
    client_class: Any = schema_registry.SchemaRegistryClient
    new_client: Callable[[dict[str, Any]], Any] = client_class.new_client
    if url.startswith("mock://"):
        # The client's mock loses everything with its object; two serdes of one application
        # must see the same registry, as they would with a server.
        client = _mocks.get(url) or _mocks.setdefault(url, new_client(config))
    else:
        client = new_client(config)
    return ConfluentRegistry(
        client,
        schema_registry.Schema,
        schema_registry.SchemaReference,
        without_credentials(url),
        schema_type,
        config,
    )
