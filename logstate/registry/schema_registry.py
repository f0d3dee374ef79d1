"""The protocol of a schema registry as serdes use it, and the errors for its refusals.

Any object with the methods of ``Registry`` can be passed to a serde. The adapter for Confluent's
client, which Karapace and Apicurio accept too, gets a client from ``logstate.registry.client``, so
that this module does not need the client to be installed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable
from urllib.parse import urlsplit, urlunsplit

from logstate.contracts.error_text import text_of
from logstate.contracts.errors import ConfigError, LogstateError, RegistryError
from logstate.registry.schema_ids import UnknownSchemaError

# A registry that never responds must not stop the poll loop forever; the client's default is to
# wait without a limit.
_DEFAULT_CONFIG = {"timeout": 10, "max.retries": 3}
_MAX_SCHEMA_BYTES = 1_000_000
_MAX_REFERENCES = 100


#: the name by which a schema refers to another one, and the subject and version of that one
Import: TypeAlias = tuple[str, str, int]


class RegisteredSchema(NamedTuple):
    """A schema's text and the (name, subject, version) of the schemas it refers to."""

    text: str
    references: tuple[Import, ...] = ()


@runtime_checkable
class Registry(Protocol):
    """A schema registry. All methods may block on the network.

    Raise UnknownSchemaError for a missing schema and RegistryError for everything else.
    """

    shown_url: str

    def register(self, subject: str, text: str) -> int:
        """Return the id of this schema under ``subject``; register it if it is new."""

    def lookup(self, subject: str, text: str) -> int:
        """Return the id of exactly this schema under ``subject``."""

    def latest(self, subject: str) -> tuple[int, RegisteredSchema]:
        """Return the newest schema of ``subject`` with its id."""

    def fetch(self, schema_id: int | uuid.UUID) -> RegisteredSchema:
        """Return the schema of an id, or of a GUID."""

    def fetch_version(self, subject: str, version: int) -> RegisteredSchema:
        """Return one version of ``subject``, for schema references."""


@runtime_checkable
class ImportingRegistry(Registry, Protocol):
    """A registry that also keeps schemas which import others, like files of Protobuf."""

    def bind(
        self, subject: str, text: str, imports: Sequence[Import], *, is_new_allowed: bool
    ) -> tuple[int, int]:
        """Return the id and the version of a schema; register it if it is new and allowed."""


class ConfluentRegistry:
    """An adapter for Confluent's client, for schemas of one type: AVRO, JSON or PROTOBUF."""

    def __init__(
        self,
        client: Any,
        schema_class: Any,
        reference_class: Any,
        shown_url: str,
        schema_type: str = "AVRO",
        config: Mapping[str, Any] | None = None,
    ) -> None:
        #: the client's configuration, for comparisons; may contain secrets
        self._config = config
        self.shown_url = shown_url
        self._client = client
        self._schema_class = schema_class
        self._reference_class = reference_class
        self._type = schema_type
        # Files of Protobuf are text or compiled; only compiled ones can be read here.
        self._format = {"fmt": "serialized"} if schema_type == "PROTOBUF" else {}

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, ConfluentRegistry) or self._config is None:
            return self is other
        return (self._type, self._config) == (other._type, other._config)

    def __hash__(self) -> int:
        return hash((self.shown_url, self._type))

    def register(self, subject: str, text: str) -> int:
        schema = self._schema_class(text, self._type)
        doing = f"register a schema under {subject!r}"
        return int(self._call(doing, self._client.register_schema, subject, schema))

    def lookup(self, subject: str, text: str) -> int:
        schema = self._schema_class(text, self._type)
        doing = f"find the schema under {subject!r}"
        return int(self._call(doing, self._client.lookup_schema, subject, schema).schema_id)

    def bind(
        self, subject: str, text: str, imports: Sequence[Import], *, is_new_allowed: bool
    ) -> tuple[int, int]:
        references = [self._reference_class(*one) for one in imports]
        schema = self._schema_class(text, self._type, references)
        if is_new_allowed:
            doing = f"register a schema under {subject!r}"
            self._call(doing, self._client.register_schema, subject, schema)
        doing = f"find the schema under {subject!r}"
        found = self._call(doing, self._client.lookup_schema, subject, schema)
        return int(found.schema_id), int(found.version)

    def latest(self, subject: str) -> tuple[int, RegisteredSchema]:
        doing = f"find the newest schema of {subject!r}"
        found = self._call(doing, self._client.get_latest_version, subject)
        return int(found.schema_id), _registered(found.schema)

    def fetch(self, schema_id: int | uuid.UUID) -> RegisteredSchema:
        doing = f"find the schema with id {schema_id}"
        if isinstance(schema_id, int):
            return _registered(
                self._call(doing, self._client.get_schema, schema_id, **self._format)
            )
        return _registered(
            self._call(doing, self._client.get_schema_by_guid, str(schema_id), **self._format)
        )

    def fetch_version(self, subject: str, version: int) -> RegisteredSchema:
        doing = f"find version {version} of {subject!r}"
        found = self._call(doing, self._client.get_version, subject, version, **self._format)
        return _registered(found.schema)

    def _call(self, doing: str, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        try:
            return method(*arguments, **options)
        except Exception as error:  # whatever the HTTP library beneath raises
            status = getattr(error, "http_status_code", None)
            if status is None:
                raise unreachable(doing, self.shown_url, error) from error
            reason = str(getattr(error, "error_message", ""))
            raise refusal(status, doing, self.shown_url, reason) from error


def _registered(schema: Any) -> RegisteredSchema:
    references = schema.references or ()
    return RegisteredSchema(
        schema.schema_str, tuple((r.name, r.subject, r.version) for r in references)
    )


def client_config(registry: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return the client configuration for a URL or a mapping, with default limits.

    Raises ConfigError without a URL.
    """
    given = {"url": registry} if isinstance(registry, str) else dict(registry)
    url = given.get("url")
    if not isinstance(url, str) or "://" not in url:
        raise ConfigError(
            "The schema registry has no usable 'url': found "
            f"{type(url).__name__ if not isinstance(url, str) else 'text without a scheme'}. Give "
            "registry='http://host:8081', registry='mock://tests', or a mapping with 'url' and "
            "the client's other settings."
        )
    return {**_DEFAULT_CONFIG, **given}


def without_credentials(url: str) -> str:
    """Return the URL without credentials, for display.

    >>> without_credentials("https://me:secret@registry:8081/x")
    'https://registry:8081/x'
    """
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def refusal(status: int, doing: str, shown_url: str, reason: str) -> LogstateError:
    """Return the error for an unsuccessful response."""
    if status == 404:
        return UnknownSchemaError(f"The schema registry at {shown_url} could not {doing}: {reason}")
    if status in (401, 403):
        advice = (
            "The credentials are missing or not allowed to do this: see 'basic.auth.user.info' "
            "and the registry's access rules."
        )
    elif status == 409:
        advice = (
            "The schema is not compatible with the versions already there. Give new fields a "
            "default, or use another topic, or relax the subject's compatibility level."
        )
    elif status == 422:
        advice = "The registry considers the schema itself invalid."
    else:
        advice = "The registry has a problem; the operation can be repeated."
    return RegistryError(
        f"The schema registry at {shown_url} refused to {doing}: {reason} (HTTP {status}). {advice}"
    )


def unreachable(doing: str, shown_url: str, error: BaseException) -> RegistryError:
    """Return the error for a missing response."""
    return RegistryError(
        f"The schema registry at {shown_url} could not be reached to {doing}: "
        f"{type(error).__name__}: {text_of(error)}. Is it running, and is the URL right?"
    )


def referenced_schemas(registry: Registry, schema: RegisteredSchema) -> Iterator[str]:
    """Yield the texts of all schemas that ``schema`` refers to, those without references first.

    Raises UnknownSchemaError for unreasonably large schemas, which would only keep this process
    busy.
    """
    seen: set[tuple[str, int]] = set()

    def visit(current: RegisteredSchema) -> Iterator[str]:
        if len(current.text) > _MAX_SCHEMA_BYTES or len(seen) > _MAX_REFERENCES:
            raise UnknownSchemaError(
                f"A schema in the registry at {registry.shown_url} is larger than "
                f"{_MAX_SCHEMA_BYTES} characters or refers to more than {_MAX_REFERENCES} others."
            )
        for _name, subject, version in current.references:
            if (subject, version) not in seen:
                seen.add((subject, version))
                referenced = registry.fetch_version(subject, version)
                yield from visit(referenced)
                yield referenced.text

    return visit(schema)
