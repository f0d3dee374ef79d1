"""The Kubernetes manifest fits the service of ``logstate new`` and what it says in docs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from logstate.cli.deployment.new import files

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def objects() -> dict[tuple[str, str], dict[str, Any]]:
    text = (ROOT / "docker" / "kubernetes" / "service.yaml").read_text()
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(text)}


def container(objects: dict[tuple[str, str], dict[str, Any]]) -> dict[str, Any]:
    (found,) = objects["StatefulSet", "shop"]["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_it_has_a_stateful_set_two_services_and_a_disruption_budget(
    objects: dict[tuple[str, str], dict[str, Any]],
) -> None:
    assert objects.keys() == {
        ("Service", "shop"),
        ("Service", "shop-queries"),
        ("PodDisruptionBudget", "shop"),
        ("StatefulSet", "shop"),
    }
    labels = objects["StatefulSet", "shop"]["spec"]["template"]["metadata"]["labels"]
    for kind, name in objects:
        selector = objects[kind, name]["spec"]["selector"]
        assert selector.get("matchLabels", selector).items() <= labels.items()
    assert objects["StatefulSet", "shop"]["spec"]["serviceName"] == "shop"
    assert objects["Service", "shop"]["spec"]["clusterIP"] == "None"


def test_it_sets_what_the_written_service_reads(
    objects: dict[tuple[str, str], dict[str, Any]],
) -> None:
    service = files("shop")["service.py"]
    names = [one["name"] for one in container(objects)["env"]]
    assert all(f'"{name}"' in service for name in names if name != "POD_NAME")
    # A variable can only name those before it.
    assert names.index("POD_NAME") < names.index("ADVERTISED_HOST")


def test_its_probes_ask_the_ports_and_paths_of_the_service(
    objects: dict[tuple[str, str], dict[str, Any]],
) -> None:
    found = container(objects)
    paths = {
        name: found[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")
    }
    assert {name: one["path"] for name, one in paths.items()} == {
        "startup": "/ready",
        "readiness": "/ready",
        "liveness": "/live",
    }
    ports = {one["name"]: one["containerPort"] for one in found["ports"]}
    assert {one["port"] for one in paths.values()} <= ports.keys()
    assert ":8080" in files("shop")["service.py"]
    assert ports["http"] == 8080


def test_it_writes_only_to_volumes(objects: dict[tuple[str, str], dict[str, Any]]) -> None:
    found, spec = container(objects), objects["StatefulSet", "shop"]["spec"]
    mounted = {one["name"]: one["mountPath"] for one in found["volumeMounts"]}
    volumes = {one["name"] for one in spec["template"]["spec"]["volumes"]}
    claimed = {one["metadata"]["name"] for one in spec["volumeClaimTemplates"]}
    assert mounted.keys() == volumes | claimed
    state = next(one["value"] for one in found["env"] if one["name"] == "STATE_DIR")
    assert mounted[next(iter(claimed))] == state
    assert found["securityContext"]["readOnlyRootFilesystem"]
