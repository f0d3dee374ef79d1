"""What ``python -m tests.spark_versions`` runs on every PySpark, sampled: Connect with this one."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.errors import AnalysisException

from logstate.changelog.spark.session_builder import register
from logstate.changelog.spark.source import LogstateDataSource
from tests.spark_versions.__main__ import RELEASES
from tests.spark_versions.cells import DIFFERENT, REFUSED, SAME, SINCE, judged, numbers
from tests.spark_versions.columns import column

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
