"""A sample of ``python -m tests.campaigns.spark_versions``: Connect with the installed PySpark."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.errors import AnalysisException

from logstate.changelog.spark.session_builder import register
from logstate.changelog.spark.source import LogstateDataSource
from tests.campaigns.spark_versions.cells import DIFFERENT, REFUSED, SAME, SINCE, judged, numbers
from tests.campaigns.spark_versions.columns import column
from tests.campaigns.spark_versions.environments import RELEASES
from tests.campaigns.spark_versions.lake import table_versions
from tests.campaigns.spark_versions.life import Life, Step
from tests.campaigns.spark_versions.spend_store import differing

DOCS = Path(__file__).parents[2] / "docs" / "spark.md"
SAMPLE = ("types", "key_filter", "tables_at_one_cut", "missing_jars_named", "stream_running")


@pytest.mark.slow
def test_a_session_of_spark_connect_reads_and_writes_what_a_classic_one_does(
    bootstrap: str,
) -> None:
    release = ".".join(pyspark.__version__.split(".")[:2])

    cells = column(bootstrap, release, "connect", Path(sys.executable), SAMPLE)

    assert sorted(one.check for one in cells) == sorted(SAMPLE)
    assert not [(one.check, one.said) for one in cells if one.kind != SAME]


@pytest.mark.parametrize(
    ("release", "told", "kind"),
    [
        ("4.3", {"found": 1}, SAME),
        ("4.3", {"found": 2}, DIFFERENT),
        ("4.3", {"refused": "maxOffsetsPerTrigger needs Spark 4.2, and this is 4.1"}, DIFFERENT),
        ("4.1", {"refused": "maxOffsetsPerTrigger needs Spark 4.2, and this is 4.1"}, REFUSED),
        ("4.1", {"refused": "something else"}, DIFFERENT),
        ("4.1", {"found": 1}, DIFFERENT),
        ("4.3", None, DIFFERENT),
    ],
)
def test_a_cell_is_wrong_unless_it_is_the_same_or_refused_as_the_page_says(
    release: str, told: dict[str, object] | None, kind: str
) -> None:
    assert judged(release, "classic", "limit_of_offsets", told, 1).kind == kind


def test_the_page_names_what_earlier_versions_cannot() -> None:
    page = DOCS.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `?(\w+)`?.*?\| (.*) \|$", page, re.MULTILINE))

    for name, checks in {
        "filters": ["filter_handed_down"],
        "limits": ["limit_of_offsets", "limit_of_records"],
    }.items():
        answers = rows[name].split(" | ")
        for check in checks:
            can = [numbers(one) >= numbers(SINCE[check][0]) for one in RELEASES]
            assert [answer == "yes" for answer in answers] == can, name


class OlderRegistration:
    """Refuses a format that it has found by its name, as Spark 4.0 does."""

    def __init__(self, condition: str) -> None:
        self.condition = condition

    def register(self, source: type[LogstateDataSource]) -> None:
        raise AnalysisException(f"[{self.condition}] Data source {source.name()!r}")


def test_a_format_that_spark_has_found_by_its_name_is_known_already() -> None:
    register(OlderRegistration("DATA_SOURCE_ALREADY_EXISTS"), LogstateDataSource)

    with pytest.raises(AnalysisException, match="INTERNAL_ERROR"):
        register(OlderRegistration("INTERNAL_ERROR"), LogstateDataSource)


@pytest.mark.parametrize(
    ("found", "difference"),
    [
        ([["a", 1, 5], ["b", 1, 7]], 0),
        ([["b", 1, 7], ["a", 1, 5]], 0),
        ([["a", 1, 5]], 1),
        ([["a", 1, 5], ["b", 1, 7], ["b", 1, 7]], 1),
        ([["a", 1, 5], ["b", 2, 7]], 2),
        ([["a", 1, -0.0], ["b", 1, 7]], 2),
    ],
)
def test_rows_that_are_missing_doubled_or_changed_are_counted(
    found: list[list[object]], difference: int
) -> None:
    assert len(differing(found, [["a", 1, 5], ["b", 1, 7]])) == difference


def test_a_life_reports_its_steps_waits_for_answers_and_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        "print('noise')\n"
        "print('@before [0, 7]', flush=True)\n"
        "print(f'@after {sys.stdin.readline()}', flush=True)\n"
        "sys.stdin.readline()\n"
    )

    with Life(Path(sys.executable), str(program), {}, tmp_path) as life:
        assert life.step() == Step("before", [0, 7])
        life.go_on(3)
        assert life.step() == Step("after", 3)
        life.kill()
        assert life.steps_now() == []

    assert life.process.returncode == -9


@pytest.mark.parametrize(
    ("lake", "log", "other"),
    [
        ("delta", "spend/_delta_log/00000000000000000000.json", "spend/_delta_log/0.crc"),
        ("iceberg", "db/spend/metadata/v1.metadata.json", "db/spend/metadata/version-hint.text"),
    ],
)
def test_versions_of_a_lake_table_are_counted_by_its_metadata(
    tmp_path: Path, lake: str, log: str, other: str
) -> None:
    assert table_versions(lake, tmp_path, "spend") == 0

    for path in (tmp_path / log, tmp_path / other):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    assert table_versions(lake, tmp_path, "spend") == 1
