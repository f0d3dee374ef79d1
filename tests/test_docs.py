"""The pages of the documentation: what they show runs, and what they name exists."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import io
import json
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from tests import shell_commands
from tests.pages import (
    OTHERS,
    ROOT,
    SITE,
    TUTORIAL,
    Block,
    anchors,
    blocks,
    links,
    name_of,
    purpose,
)

#: languages of what a program prints, and of pictures made of characters
OUTPUT = {"text"}
#: directives of the site
DIRECTIVES = {"{toctree}", "{eval-rst}"}
#: PySpark is not part of the environment of the fast tests; schedules go through the same lines
MARKS = {"spark": pytest.mark.slow, "simulation": pytest.mark.no_cover}


@pytest.mark.parametrize(
    "page",
    [pytest.param(one, marks=MARKS.get(one.stem, ())) for one in SITE],
    ids=name_of,
)
def test_the_snippets_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # A long line of output is written on several, each but the last with a backslash at its end.
    text = page.read_text(encoding="utf-8").replace("\\\n", "")
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    runner = doctest.DocTestRunner(optionflags=flags)
    report: list[str] = []
    runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)


@pytest.mark.parametrize("page", SITE, ids=name_of)
def test_a_program_of_a_page_prints_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = [*blocks(page), None]
    for block, following in pairwise(shown):
        if block is None or block.language != "python" or block.is_session or block.marker:
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block.text, block.place, "exec"), {"__name__": "page"})
        if printed.getvalue():
            assert following is not None, f"{block.place} prints something that no block shows"
            assert following.language in OUTPUT, f"{block.place}: its output is not shown"
            assert printed.getvalue().strip() == following.text.strip(), block.place


@pytest.mark.parametrize("page", SITE, ids=name_of)
def test_a_block_runs_or_says_why_it_does_not(page: Path) -> None:
    assert [problem for block in blocks(page) for problem in problems(block)] == []


def problems(block: Block) -> Iterator[str]:
    """The problems of a block that is not run, each with its place."""
    if block.marker == "no-run":
        checked = checks_of(block) if block.language == "python" else ()
        yield from (f"{block.place}: {problem}" for problem in checked)
        return
    of_tutorial = block.place.startswith(name_of(TUTORIAL)) and block.marker in {"file", "run"}
    if block.marker and not of_tutorial:
        yield f"{block.place}: write `no-run: reason`, found {block.marker!r}"
    if block.language in {*OUTPUT, *DIRECTIVES, "python", "pycon"} or of_tutorial:
        return
    if block.language in {"sh", "console"}:
        is_console = block.language == "console"
        for command in shell_commands.commands(block.text, is_console=is_console):
            for problem in shell_commands.problems(command):
                yield f"{block.place}: {command}: {problem}"
        return
    try:
        DATA[block.language](block.text)
    except KeyError:
        language = block.language or "without a language"
        yield f"{block.place}: a block ({language}) has to run, or to say `no-run: reason`"
    except ValueError as error:
        yield f"{block.place}: not valid {block.language}: {error}"


def json_lines(text: str) -> None:
    """One document, or one per line."""
    try:
        json.loads(text)
    except ValueError:
        for line in text.splitlines():
            json.loads(line)


def yaml_documents(text: str) -> None:
    try:
        list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        raise ValueError(error) from None


DATA = {"json": json_lines, "toml": tomllib.loads, "yaml": yaml_documents}


def checks_of(block: Block) -> Iterator[str]:
    """The problems of Python that does not run: its syntax, and names that it imports."""
    try:
        tree = ast.parse(block.text)
    except SyntaxError as error:
        yield str(error)
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("logstate"):
            try:
                module = importlib.import_module(node.module or "")
            except ModuleNotFoundError as error:
                if (error.name or "").startswith("logstate"):
                    yield str(error)
                continue  # an extra that this environment does not have
            yield from (
                f"{node.module} has no {one.name}"
                for one in node.names
                if not hasattr(module, one.name)
            )


def test_there_are_pages_with_snippets() -> None:
    assert sum(block.is_session for page in SITE for block in blocks(page)) > 60


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (Block("p:1", "", "", "", "x"), "without a language"),
        (Block("p:1", "indented", "", "", "x"), "(indented) has to run"),
        (Block("p:1", "dockerfile", "", "", "FROM x"), "(dockerfile) has to run"),
        (Block("p:1", "dockerfile", "no-run", "needs Docker", "FROM x"), None),
        (Block("p:1", "python", "no-run", "needs a broker", "x ="), "invalid syntax"),
        (Block("p:1", "python", "no-run", "a broker", "from logstate import Nn"), "has no Nn"),
        (Block("p:1", "python", "norun", "", "x"), "found 'norun'"),
        (Block("p:1", "python", "file", "a.py", "x"), "found 'file'"),
        (Block("p:1", "sh", "", "", "logstate statsu"), "no command 'statsu'"),
        (Block("p:1", "sh", "", "", "logstate status --nope"), "no option --nope"),
        (Block("p:1", "sh", "", "", "logstate topics creat"), "no command 'creat'"),
        (Block("p:1", "sh", "", "", "logstate topics create m:t --with-inputs"), None),
        (Block("p:1", "sh", "", "", "X=$(logstate broker strat)"), "no command 'strat'"),
        (Block("p:1", "sh", "", "", "pip install 'logstate[brokr]'"), "no extra 'brokr'"),
        (Block("p:1", "sh", "", "", "python -m tests.no_such_module"), "no module"),
        (Block("p:1", "sh", "", "", "./dev tst"), "no command 'tst'"),
        (Block("p:1", "sh", "", "", "kubectl get pods"), "not a command that this test knows"),
        (Block("p:1", "console", "", "", "$ logstate lag\nkubectl is printed"), None),
        (Block("p:1", "yaml", "", "", "a: [1"), "not valid yaml"),
        (Block("p:1", "json", "", "", '{"a": 1}\n{"a": 2}\n'), None),
    ],
)
def test_the_check_of_blocks_finds_a_mistake(block: Block, expected: str | None) -> None:
    found = list(problems(block))
    assert bool(found) == (expected is not None), found
    assert expected is None or expected in found[0]


@pytest.mark.parametrize("page", SITE, ids=name_of)
def test_a_page_begins_with_its_purpose(page: Path) -> None:
    text = purpose(page)
    assert "You need " in text, (
        f"{name_of(page)}: the paragraph below the title states what the page covers and when it"
        f" is needed (You need this page to ...), found {text!r}"
    )


@pytest.mark.parametrize("page", [*SITE, *OTHERS], ids=name_of)
def test_a_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    assert [problem for place, link in links(page) for problem in missing(page, place, link)] == []


def missing(page: Path, place: str, link: str) -> Iterator[str]:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists() or not target.is_relative_to(ROOT):
        yield f"{place}: there is no {path}"
    elif anchor and anchor not in anchors(target):
        yield f"{place}: {name_of(target)} has no heading #{anchor}"


def test_the_check_of_links_finds_a_missing_file_and_a_missing_heading() -> None:
    page = ROOT / "docs" / "glossary.md"
    assert list(missing(page, "p:1", "no-such-page.md")) == ["p:1: there is no no-such-page.md"]
    assert list(missing(page, "p:1", "#no-such-heading")) != []
    assert list(missing(page, "p:1", "serdes.md#avro")) == []
