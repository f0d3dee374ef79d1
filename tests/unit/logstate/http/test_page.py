"""The page as it is sent: to everybody, allowed to run its own text and nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from xml.etree import ElementTree

import httpx
import pytest

from logstate.app.application import Application
from logstate.contracts.serving import Serving
from tests import patience
from tests.unhurried import no_silence  # noqa: F401  for this module
from tests.unit.logstate.instances import KEYS, cluster_with, instance, shared, until

TOKEN = {"Authorization": "Bearer hush"}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    serve = Serving("127.0.0.1:0", token="hush")
    with instance(cluster_with(), tmp_path_factory.mktemp("a"), serve=serve) as app:
        until(app, shared(app, 1))
        until(app, lambda: app.all_instances()[0].figures.processed >= sum(range(len(KEYS) + 1)))
        yield app


@pytest.fixture(scope="module")
def http(app: Application) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=app.all_instances()[0].host, trust_env=False, timeout=patience.PATIENCE_S
    ) as client:
        yield client


def hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_page_is_for_everybody_and_may_run_its_own_text_only(http: httpx.Client) -> None:
    page = http.get("/")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert http.head("/").status_code == 200
    rules = dict(rule.split(" ", 1) for rule in page.headers["content-security-policy"].split("; "))
    (script,) = re.findall(r"<script>(.*?)</script>", page.text, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", page.text, re.DOTALL)
    assert rules == {
        "default-src": "'none'",
        "connect-src": "'self'",
        "img-src": "data:",
        "script-src": hash_of(script),
        "style-src": hash_of(style),
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"


def test_the_page_has_nothing_of_the_instance_and_names_no_host(http: httpx.Client) -> None:
    text = http.get("/").text
    assert "hush" not in text
    assert "per-10s" not in text
    named = set(re.findall(r"https?://[\w.]+", text))
    assert named == {"http://www.w3.org"}, "the name of a format, of which nothing is fetched"
    for sink in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert sink not in text


@pytest.mark.parametrize(
    ("form", "media_type", "shown"),
    [
        ("text", "text/plain; charset=utf-8", "Sub-topology: 0"),
        ("mermaid", "text/plain; charset=utf-8", "flowchart"),
        ("svg", "image/svg+xml", "Sub-topology 0"),
    ],
)
def test_the_topology_comes_in_three_forms(
    http: httpx.Client, form: str, media_type: str, shown: str
) -> None:
    answer = http.get("/topology", params={"as": form}, headers=TOKEN)
    assert (answer.status_code, answer.headers["content-type"]) == (200, media_type)
    assert shown in answer.text
    if form == "svg":
        assert ElementTree.fromstring(answer.text).tag.endswith("svg")
    if form == "text":
        assert http.get("/topology", headers=TOKEN).text == answer.text
    assert http.get("/topology", params={"as": form}).status_code == 401


def test_another_form_of_the_topology_is_refused_with_those_that_there_are(
    http: httpx.Client,
) -> None:
    answer = http.get("/topology?as=png", headers=TOKEN)
    assert answer.status_code == 400
    assert answer.json()["error"] == "as must be one of text, svg, mermaid, json; got 'png'"


def test_status_has_what_every_instance_has_counted(http: httpx.Client) -> None:
    check = lambda: http.get("/status", headers=TOKEN).json()  # noqa: E731
    status = check()
    (one,) = status["instances"]
    figures = one["figures"]
    assert figures["processed"] >= sum(range(len(KEYS) + 1))
    assert figures["commits"] >= 1
    assert 0 < figures["commit_seconds"] < patience.PATIENCE_S
    assert (figures["dropped"], figures["dead_lettered"]) == (0, 0)
    patience.until(lambda: 0 <= check()["instances"][0]["silent_ms"] < 5_000)
    assert status["task_counts"] == {"0": 4}
