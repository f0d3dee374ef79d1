"""What follows from other texts is as these are today."""

from __future__ import annotations

import pytest

from tests.built_wheel import ROOT
from tests.generated_texts import GENERATED, facade, packages


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_text_is_as_it_has_to_be(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert GENERATED[name](text) == text, "./dev fix writes it anew"


def test_a_package_that_is_missing_in_the_list_is_added() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert packages(text.replace('    "logstate.worker",\n', "")) == text


def test_a_public_name_that_type_checkers_lack_is_added() -> None:
    text = (ROOT / "logstate" / "__init__.py").read_text(encoding="utf-8")
    line = "    from logstate.app.application import Application as Application\n"
    assert facade(text.replace(line, "")) == text
