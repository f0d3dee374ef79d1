import pytest

from logstate.kafka.redaction import HIDDEN, is_secret, redacted, redacted_text


@pytest.mark.parametrize(
    "key",
    [
        "sasl.password",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.password",
        "ssl.certificate.pem",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem",
        "basic.auth.user.info",
        "bearer.auth.token",
        "sasl.jaas.config",
        "SASL.PASSWORD",
        "sasl_password",
        "some.future.secret",
    ],
)
def test_secrets_are_hidden(key: str) -> None:
    assert redacted({key: "hunter2"}) == {key: HIDDEN}


@pytest.mark.parametrize(
    "key",
    [
        "bootstrap.servers",
        "client.id",
        "sasl.mechanism",
        "sasl.username",
        "sasl.oauthbearer.token.endpoint.url",
        "security.protocol",
        "ssl.ca.location",
        "ssl.key.location",
    ],
)
def test_what_helps_to_find_a_mistake_stays(key: str) -> None:
    assert not is_secret(key)
    assert redacted({key: "value"}) == {key: "value"}


def test_nested_settings_urls_and_functions_are_shown_safely() -> None:
    def refresh() -> None: ...

    shown = redacted(
        {
            "registry": {"url": "https://me:hunter2@registry:8081", "basic.auth.user.info": "a:b"},
            "oauth_cb": refresh,
            "linger.ms": 5,
        }
    )

    assert shown["registry"] == {
        "url": f"https://{HIDDEN}@registry:8081",
        "basic.auth.user.info": HIDDEN,
    }
    assert shown["oauth_cb"].endswith("refresh>")
    assert shown["linger.ms"] == 5


def test_the_configuration_itself_is_left_alone() -> None:
    config = {"sasl.password": "hunter2"}
    redacted(config)

    assert config == {"sasl.password": "hunter2"}


def test_secrets_are_taken_out_of_texts_from_elsewhere() -> None:
    config = {"sasl.password": "hunter2", "registry": {"basic.auth.user.info": "me:hunter2pass"}}
    text = "login me:hunter2pass failed, tried hunter2 at http://ada:pw@host/"

    assert redacted_text(text, config) == (
        f"login {HIDDEN} failed, tried {HIDDEN} at http://{HIDDEN}@host/"
    )
