"""What commands print of keys, values and names from topics: a terminal must not obey it."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from rich.table import Table

from logstate.cli.shared.printing import (
    finite,
    in_words,
    json_text,
    print_json,
    print_table,
    print_text,
)

ROOT = Path(__file__).resolve().parents[4]
#: sets the title, clears the screen, overwrites the line, turns colors on, reverses the text
HOSTILE = "k\x1b]0;title\x07\x1b[2J\r\x9b31m\x7f\u202e\u2066\u2028\ud800\t\x00"
ESCAPED = r"k\x1b]0;title\x07\x1b[2J\r\x9b31m\x7f\u202e\u2066\u2028\ud800\t\x00"
#: these print nothing but their own, constant text
PRINTS_ITSELF = {"printing.py", "doctor_spark.py"}


def is_harmless(printed: str) -> bool:
    return printed.replace("\n", "").isprintable()


@pytest.mark.parametrize("value", [HOSTILE, {HOSTILE: [HOSTILE]}, [HOSTILE]])
def test_control_characters_of_values_are_printed_as_escapes(
    value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Table(HOSTILE, title=HOSTILE)
    table.add_row(in_words(value))
    table.add_row(HOSTILE)
    print_table(table)
    print_text(in_words(value))
    print_text(value if isinstance(value, str) else "")
    print_json(value)
    captured = capsys.readouterr()
    assert is_harmless(captured.out)
    assert "2J" in captured.out


def test_a_text_stays_readable_and_its_lines_stay_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_text(f"café 日本 🙂\n{HOSTILE}")
    assert capsys.readouterr().out == f"café 日本 🙂\n{ESCAPED}\n"
    assert in_words(HOSTILE) == ESCAPED
    assert in_words("two\nlines") == r"two\nlines"
    assert in_words({"é": "日"}) == '{"é":"日"}'


@pytest.mark.parametrize(
    ("number", "text"),
    [(float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity")],
)
def test_json_has_texts_for_numbers_that_it_does_not_have(number: float, text: str) -> None:
    value = {"at": [number, {"deep": number}], "whole": 1.5}
    assert finite(value) == {"at": [text, {"deep": text}], "whole": 1.5}
    assert json.loads(json_text(value), parse_constant=pytest.fail) == finite(value)
    assert in_words(value) == f'{{"at":["{text}",{{"deep":"{text}"}}],"whole":1.5}}'


def test_every_command_prints_through_the_module_that_escapes() -> None:
    files = list((ROOT / "logstate" / "cli").rglob("*.py"))
    culprits = [
        f"{path.name}:{node.lineno}"
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
        and path.name not in PRINTS_ITSELF
    ]
    assert len(files) > 20
    assert not culprits
