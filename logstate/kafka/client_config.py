"""Which settings a user may pass to the Kafka clients, and which ones the engine sets itself.

``Application(kafka={...})`` takes any setting of librdkafka and passes it to every client that has
it (:mod:`logstate.kafka.client_settings`). The engine owns the settings that correct results depend
on (``OWNED_KEYS``). Settings that run or load foreign code have to be allowed explicitly
(``UNSAFE_KEYS``).
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import Any

from logstate.contracts.errors import ConfigError
from logstate.kafka.client_keys import JAVA_NAMES, KNOWN_KEYS, java_advice

_POSITIONS = "positions are committed with the state they belong to, never by the client"
_FENCING = "assignment and fencing depend on it"
_OUTPUT = "exactly-once output depends on it"
_CONFIRMED = "the engine waits for the confirmation of every record itself"

OWNED_KEYS: Mapping[str, str] = {
    "acks": _OUTPUT,
    "allow.auto.create.topics": "a topic created implicitly would have the wrong partition count",
    "auto.commit.enable": _POSITIONS,
    "auto.commit.interval.ms": _POSITIONS,
    "auto.offset.reset": "give offset_reset= where the topic is declared; the clients need 'error'",
    "bootstrap.servers": "give bootstrap= to Application",
    "delivery.report.only.error": _CONFIRMED,
    "dr_cb": _CONFIRMED,
    "dr_msg_cb": _CONFIRMED,
    "enable.auto.commit": _POSITIONS,
    "enable.auto.offset.store": _POSITIONS,
    "enable.gapless.guarantee": _OUTPUT,
    "enable.idempotence": _OUTPUT,
    "enable.partition.eof": "restoring depends on it",
    "group.id": "it is the application id: give application_id= to Application",
    "group.instance.id": "it is made from the instance's own id and the worker's number",
    "group.protocol": _FENCING,
    "group.protocol.type": _FENCING,
    "group.remote.assignor": "co-partitioned partitions must be in one task",
    "isolation.level": "aborted records must not reach the stores",
    "metadata.broker.list": "give bootstrap= to Application",
    "offset.store.method": _POSITIONS,
    "offset_commit_cb": _POSITIONS,
    "on_commit": _POSITIONS,
    "on_delivery": _CONFIRMED,
    "partition.assignment.strategy": "co-partitioned partitions must be in one task",
    "partitioner": "records must land where JVM producers put the same key (murmur2)",
    "partitioner_cb": "records must land where JVM producers put the same key (murmur2)",
    "rebalance_cb": _FENCING,
    "request.required.acks": _OUTPUT,
    "transaction.timeout.ms": "it is chosen together with the commit interval",
    "transactional.id": "it is made from the application id and the worker's stable slot",
}

UNSAFE_KEYS: Mapping[str, str] = {
    "enable.sasl.oauthbearer.unsecure.jwt": "disables real authentication",
    "plugin.library.paths": "loads native libraries",
    "sasl.kerberos.kinit.cmd": "runs a shell command",
    "ssl.engine.location": "loads a native library",
}


#: a setting that no client will ever have
_NO_SETTING = "no.such.key"
#: names of settings with numbers end so
_MEASURES = (".ms", ".bytes", ".kbytes", ".messages")


def check_user_config(
    config: Mapping[str, Any], *, allow_unsafe: bool = False, name: str = "kafka"
) -> None:
    """Refuse settings that must not be in ``kafka={...}``, or ``name={...}``, all at once.

    Raises ConfigError for settings that the engine owns, for settings that run foreign code unless
    ``allow_unsafe``, for names that the client does not have, and for values that no setting can
    have. Names that are not listed here are tried with the installed client, which may be newer. No
    message contains a value.

    >>> check_user_config({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"})
    >>> check_user_config({"group.id": "mine"})
    Traceback (most recent call last):
    ...
    logstate.contracts.errors.ConfigError: kafka['group.id'] belongs to the engine: it is \
the application id: give application_id= to Application. Remove it.
    """
    problems = []
    for key, value in config.items():
        problem = _problem_with_key(key, allow_unsafe, name) or _problem_with_value(
            key, value, name
        )
        if problem is not None:
            problems.append(problem)
    protocol = str(config.get("security.protocol", "")).lower()
    if protocol.startswith("sasl") and not {"sasl.mechanism", "sasl.mechanisms"} & config.keys():
        problems.append(
            f"{name}['security.protocol'] is {protocol} and 'sasl.mechanism' is missing: the"
            " client would try GSSAPI (Kerberos). Give it, for example 'SCRAM-SHA-512' or 'PLAIN'."
        )
    if problems:
        raise ConfigError(problems)


def admin_client(config: Mapping[str, Any], **of_client: Any) -> Any:
    """Return an admin client with ``kafka={...}`` and the library's own settings ``of_client``.

    Raises ConfigError, without any value, if the client refuses the settings.
    """
    import confluent_kafka.admin

    from logstate.kafka.faults import native_error

    try:
        return confluent_kafka.admin.AdminClient({**config, **of_client})
    except confluent_kafka.KafkaException as error:
        raise _refused(config, str(native_error(error))) from error


def _refused(config: Mapping[str, Any], error: str) -> ConfigError:
    """``error`` quotes names of settings, and no value of a setting that the client knows."""
    unknown = [
        _unknown_setting(key, f"kafka[{key!r}]")
        for key in config
        if key not in KNOWN_KEYS and f'property: "{key}"' in error
    ]
    if unknown:
        return ConfigError(unknown)
    names = [repr(key) for key in config if f'"{key}"' in error]
    which = f"the value of {', '.join(names)} in kafka" if names else "the settings kafka"
    return ConfigError(
        f"the client, librdkafka, refuses {which}: see its CONFIGURATION.md for the values that it"
        " takes"
    )


def weaknesses(config: Mapping[str, Any]) -> list[str]:
    """Return allowed settings that weaken security; each deserves one warning at the start."""
    found = []
    if _is_off(config.get("enable.ssl.certificate.verification")):
        found.append(
            "'enable.ssl.certificate.verification' is off: anyone in between can pose as the "
            "broker. Use 'ssl.ca.location' for a private certificate authority instead."
        )
    if str(config.get("ssl.endpoint.identification.algorithm", "https")).lower() == "none":
        found.append(
            "'ssl.endpoint.identification.algorithm' is none: a valid certificate of any other "
            "host is accepted as the broker's."
        )
    if str(config.get("security.protocol", "")).lower() == "sasl_plaintext":
        found.append("'security.protocol' is sasl_plaintext: credentials travel unencrypted.")
    return found


def _problem_with_key(key: object, allow_unsafe: bool, name: str) -> str | None:
    if not isinstance(key, str):
        return f"{name}[{key!r}]: a setting's name is text, found {type(key).__name__}."
    shown = f"{name}[{key!r}]"
    if key in OWNED_KEYS:
        return f"{shown} belongs to the engine: {OWNED_KEYS[key]}. Remove it."
    if key in UNSAFE_KEYS:
        if allow_unsafe:
            return None
        return f"{shown} {UNSAFE_KEYS[key]}, which is not allowed from configuration by default."
    if key in KNOWN_KEYS:
        return None
    advice = java_advice(key)
    if advice is not None:
        return f"{shown} is not a setting of this client: {advice}."
    return None if _is_known_to_client(key) else _unknown_setting(key, shown)


def _is_known_to_client(key: str) -> bool:
    """Return whether the installed client has a setting of that name that takes text."""
    import confluent_kafka

    try:
        # Settings are read in order and the second one never exists, so no client is created.
        confluent_kafka.Producer({key: "x", _NO_SETTING: "x"})
    except confluent_kafka.KafkaException as error:
        said = str(error)
        # The setting is accepted, or its value is refused; settings for C programs only are
        # neither.
        return f'property: "{_NO_SETTING}"' in said or "Invalid value" in said
    raise AssertionError(f"a client took {_NO_SETTING!r}")


def _unknown_setting(key: str, shown: str) -> str:
    dotted = key.strip().lower().replace("_", ".")
    names = KNOWN_KEYS | OWNED_KEYS.keys() | JAVA_NAMES
    near = (
        [dotted] if dotted in names else difflib.get_close_matches(dotted, names, n=1, cutoff=0.8)
    )
    if not near:
        return (
            f"{shown} is not known to the client, librdkafka, which would refuse it. Its settings"
            " are those of librdkafka's CONFIGURATION.md; the settings of the application are the"
            " arguments of Application. Remove it."
        )
    advice = java_advice(near[0])
    elsewhere = "" if advice is None else f" That is not a setting of this client: {advice}."
    return f"{shown} is not known. Did you mean {near[0]!r}?{elsewhere}"


def _problem_with_value(key: str, value: object, name: str) -> str | None:
    if key.endswith("_cb") and not callable(value):
        return f"{name}[{key!r}] must be a function, found {type(value).__name__}."
    if key.endswith(_MEASURES) and not _is_number(value):
        found = "text that is none" if isinstance(value, str) else type(value).__name__
        return f"{name}[{key!r}] must be a number, found {found}."
    if isinstance(value, (str, int, float, bool)) or callable(value) or key == "logger":
        return None
    return (
        f"{name}[{key!r}] must be text, a number, a boolean or a function, found "
        f"{type(value).__name__}. Lists are written as text with commas."
    )


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return False
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _is_off(value: object) -> bool:
    return value is False or str(value).lower() in ("false", "0")
