"""Which Maven repository is used: the variable, a mirror in settings.xml, the default of jgo."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from jgo.constants import MAVEN_CENTRAL_URL

from logstate.contracts.errors import ConfigError
from logstate.local_broker.repository import repository_url
from tests.patience import PATIENCE_S

SETTINGS = """<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0"><mirrors>
  <mirror><id>a</id><mirrorOf>{of}</mirrorOf><url>{url}</url></mirror>
</mirrors></settings>"""
MIRROR = "https://mirror.example/maven"


def home_with_settings(home: Path, text: str) -> dict[str, str]:
    (home / ".m2").mkdir()
    (home / ".m2" / "settings.xml").write_text(text)
    return {"HOME": str(home)}


def test_without_any_setting_and_without_maven_the_default_of_jgo_is_used(tmp_path: Path) -> None:
    assert repository_url({"HOME": str(tmp_path), "PATH": str(tmp_path)}) == MAVEN_CENTRAL_URL
    assert repository_url({"HOME": str(tmp_path), "LOGSTATE_MAVEN_URL": ""}) == MAVEN_CENTRAL_URL


@pytest.mark.parametrize(
    ("mirror_of", "is_used"),
    [
        ("central", True),
        ("*", True),
        ("external:*", True),
        ("snapshots, central", True),
        ("*,!central", False),
        ("snapshots", False),
        ("external:http:*", False),
    ],
)
def test_a_mirror_of_central_in_the_settings_of_maven_is_used(
    mirror_of: str, is_used: bool, tmp_path: Path
) -> None:
    environ = home_with_settings(tmp_path, SETTINGS.format(of=mirror_of, url=f"{MIRROR}/"))

    assert repository_url(environ) == (MIRROR if is_used else MAVEN_CENTRAL_URL)


@pytest.mark.parametrize("text", ["", "<settings/>", "<settings", SETTINGS.format(of="*", url="")])
def test_settings_without_a_mirror_are_ignored(text: str, tmp_path: Path) -> None:
    assert repository_url(home_with_settings(tmp_path, text)) == MAVEN_CENTRAL_URL


def test_the_variable_replaces_a_mirror(tmp_path: Path) -> None:
    environ = home_with_settings(tmp_path, SETTINGS.format(of="*", url=MIRROR))

    own = {**environ, "LOGSTATE_MAVEN_URL": "https://own.example/maven/"}

    assert repository_url(own) == "https://own.example/maven"


@pytest.mark.parametrize(
    "url", ["mirror.example", "ftp://mirror.example", "https://", "/srv/maven"]
)
def test_an_invalid_url_is_refused_with_the_place_that_has_it(url: str, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"LOGSTATE_MAVEN_URL has the invalid .*https://"
    ) as error:
        repository_url({"HOME": str(tmp_path), "LOGSTATE_MAVEN_URL": url})
    assert repr(url) in str(error.value)

    environ = home_with_settings(tmp_path, SETTINGS.format(of="*", url=url))
    with pytest.raises(ConfigError, match=r"settings\.xml has the invalid"):
        repository_url(environ)


def test_without_jgo_the_error_names_the_extra(tmp_path: Path) -> None:
    script = """
import sys
sys.modules["jgo"] = None
from logstate.local_broker.jars import broker_jars
broker_jars({"LOGSTATE_CACHE_DIR": sys.argv[1]})
"""
    result = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert result.returncode == 1
    assert "pip install 'logstate[broker]'" in result.stderr.splitlines()[-1]
