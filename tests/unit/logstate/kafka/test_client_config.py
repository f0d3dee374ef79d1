import logging
import re
from pathlib import Path

import confluent_kafka
import pytest

from logstate import Application, StreamsBuilder
from logstate.contracts.errors import ConfigError
from logstate.kafka import client_config
from logstate.kafka.client_config import OWNED_KEYS, UNSAFE_KEYS, check_user_config, weaknesses
from logstate.kafka.client_keys import JAVA_NAMES, KNOWN_KEYS, java_advice
from logstate.kafka.cluster import KafkaCluster
from logstate.testing import FakeCluster


def problems(config: dict[str, object]) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        check_user_config(config)
    return caught.value.problems


def test_security_and_tuning_settings_pass() -> None:
    check_user_config(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "ada",
            "sasl.password": "hunter2",
            "ssl.ca.location": "ca.pem",
            "oauth_cb": lambda _config: ("token", 0.0),
            "logger": logging.getLogger("kafka"),
            "linger.ms": 20,
            "fetch.max.bytes": 1_000_000,
            "enable.metrics.push": False,
        }
    )


@pytest.mark.parametrize("key", OWNED_KEYS)
def test_settings_that_the_engine_owns_are_refused_with_the_reason(key: str) -> None:
    assert problems({key: "x"}) == (
        f"kafka[{key!r}] belongs to the engine: {OWNED_KEYS[key]}. Remove it.",
    )


@pytest.mark.parametrize("key", UNSAFE_KEYS)
def test_settings_that_run_foreign_code_need_an_explicit_word(key: str) -> None:
    assert "not allowed from configuration by default" in problems({key: "x"})[0]
    check_user_config({key: "x"}, allow_unsafe=True)


def test_all_problems_are_listed_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        check_user_config({"group.id": "a", "acks": "1", "linger.ms": 5, "sasl.pasword": "x"})

    assert len(caught.value.problems) == 3
    assert "3 problems" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("sasl.pasword", "sasl.password"),
        ("security_protocol", "security.protocol"),
        ("Linger.ms", "linger.ms"),
        ("ssl.ca.locaton", "ssl.ca.location"),
        ("group_id", "group.id"),
    ],
)
def test_a_slip_of_the_finger_gets_the_nearest_name(key: str, meant: str) -> None:
    assert problems({key: "x"}) == (f"kafka[{key!r}] is not known. Did you mean {meant!r}?",)


def test_names_of_other_clients_are_translated() -> None:
    assert "use 'ssl.ca.location'" in problems({"ssl.truststore.location": "x"})[0]
    assert "registry=" in problems({"schema.registry.url": "x"})[0]


def test_a_setting_that_no_client_knows_is_refused_before_one_is_made() -> None:
    (problem,) = problems({"quantum.entanglement": 3})
    assert "kafka['quantum.entanglement'] is not known to the client" in problem
    assert "CONFIGURATION.md" in problem


def test_a_setting_that_only_the_installed_client_knows_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_config, "KNOWN_KEYS", KNOWN_KEYS - {"linger.ms", "compression.type"})
    check_user_config({"linger.ms": 3, "compression.type": "lz4"})


@pytest.mark.parametrize("key", ["background_event_cb", "opaque", "default_topic_conf"])
def test_a_setting_that_python_cannot_make_is_refused(key: str) -> None:
    assert "is not known" in problems({key: print})[0]


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ("num.standby.replicas", "standby_replicas="),
        ("replication.factor", "replication_factor="),
        ("deserialization.exception.handler", "ErrorHandlers(deserialization=...)"),
        ("default.production.exception.handler", "ErrorHandlers(production=...)"),
        ("processing.exception.handler", "ErrorHandlers(processing=...)"),
        ("errors.dead.letter.queue.topic.name", "dead_letter_topic=..."),
        ("cache.max.bytes.buffering", "emit='commit'"),
        ("statestore.cache.max.bytes", "emit='commit'"),
        ("max.block.ms", "'message.timeout.ms'"),
        ("num_standby_replicas", "standby_replicas="),
        ("NUM.STREAM.THREADS", "workers="),
        ("standby.replicas", "standby_replicas="),
        ("commit_interval", "commit_interval="),
        ("topic.retention.ms", "topic_config={'retention.ms': ...}"),
        ("min.insync.replicas", "topic_config={'min.insync.replicas': ...}"),
        ("transaction.max.timeout.ms", "setting of the brokers"),
        ("producer.linger.ms", "producer={'linger.ms': ...}"),
        ("main.consumer.fetch.min.bytes", "consumer={'fetch.min.bytes': ...}"),
        ("restore.consumer.fetch.max.wait.ms", "'fetch.wait.max.ms'"),
        ("admin.retries", "admin={'retries': ...}"),
        ("client.tag.zone", "'client.rack'"),
    ],
)
def test_names_of_the_jvm_are_refused_with_what_to_say_instead(key: str, instead: str) -> None:
    (problem,) = problems({key: "x"})
    assert problem.startswith(f"kafka[{key!r}] is no")
    assert instead in problem


def test_an_application_refuses_names_of_the_jvm_before_anything_is_opened(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).to("out")
    state = tmp_path / "state"
    with pytest.raises(ConfigError, match="standby_replicas=") as caught:
        Application(
            builder.build(),
            application_id="app",
            bootstrap="fake:9092",
            state_dir=state,
            kafka={"num.standby.replicas": 1, "nonsense.at.all": 2},
            cluster=FakeCluster({"in": 1, "out": 1}),
        )
    assert len(caught.value.problems) == 2
    assert not state.exists()


@pytest.mark.parametrize("value", [None, [], {}, b"x"])
def test_values_that_no_setting_has_are_refused_without_being_shown(value: object) -> None:
    assert re.fullmatch(r"kafka\['client.id'\] must be text.*", problems({"client.id": value})[0])


def test_a_callback_must_be_callable() -> None:
    assert "must be a function, found str" in problems({"error_cb": "print"})[0]


def test_a_name_that_is_not_text_is_refused() -> None:
    assert "a setting's name is text" in problems({5: "x"})[0]  # type: ignore[dict-item]


def test_no_message_contains_a_value() -> None:
    assert "hunter2" not in "".join(problems({"sasl.pasword": "hunter2", "group.id": "hunter2"}))


def test_weak_security_is_pointed_out() -> None:
    assert weaknesses({"security.protocol": "SASL_SSL"}) == []
    assert len(weaknesses({"enable.ssl.certificate.verification": "false"})) == 1
    assert len(weaknesses({"enable.ssl.certificate.verification": False})) == 1
    assert len(weaknesses({"ssl.endpoint.identification.algorithm": "none"})) == 1
    assert len(weaknesses({"security.protocol": "sasl_plaintext"})) == 1


def test_a_cluster_warns_of_weak_security_once_and_shows_no_password(
    caplog: pytest.LogCaptureFixture,
) -> None:
    weak = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    KafkaCluster("localhost:9", {**weak, "sasl.password": "hunter2"})
    assert [record.getMessage() for record in caplog.records] == weaknesses(weak)
    assert "hunter2" not in caplog.text


def test_the_known_names_are_known_to_the_installed_client() -> None:
    def is_unknown(key: str) -> bool:
        # Settings are taken in order and the second one never exists, so no client is made.
        with pytest.raises(confluent_kafka.KafkaException) as caught:
            confluent_kafka.Producer({key: "x", "no.such.key": "x"})
        return f'property: "{key}"' in str(caught.value)

    read_by_the_binding = {"delivery.report.only.error", "error_cb", "logger", "oauth_cb"}
    read_by_the_binding |= {"stats_cb", "throttle_cb"}
    assert is_unknown("sasl.pasword")
    assert [key for key in sorted(KNOWN_KEYS - read_by_the_binding) if is_unknown(key)] == []
    assert not (KNOWN_KEYS | OWNED_KEYS.keys() | UNSAFE_KEYS.keys()) & JAVA_NAMES
    assert [name for name in JAVA_NAMES if client_config._is_known_to_client(name)] == []


def test_what_is_advised_instead_is_known_itself() -> None:
    quoted = [re.findall(r"'([a-z.]+\.[a-z.]+)'", java_advice(name) or "") for name in JAVA_NAMES]
    advised = {setting for settings in quoted for setting in settings} - JAVA_NAMES
    assert advised <= KNOWN_KEYS


def test_sasl_without_a_mechanism_is_refused_before_it_tries_kerberos() -> None:
    (problem,) = problems({"security.protocol": "SASL_SSL", "sasl.username": "ada"})
    assert "'sasl.mechanism' is missing" in problem
    assert "GSSAPI" in problem
