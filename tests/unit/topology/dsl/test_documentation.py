"""Every public name of the DSL is documented in five parts.

1. a summary; 2. an example, which tests/test_doctests.py runs; 3. the semantics, for operators line
by line: null keys and values, late records, order, repartition, store, timestamp, or as another's,
but for some of them; 4. arguments, result and errors; 5. the source of its rules.

What holds for every operator of a class, of 3 and 4, the class may tell once: "as every operator".
A function may have the arguments, the result and the errors of another one: "as for".
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import logstate.topology as dsl
from logstate.topology import (
    BranchedKStream,
    CogroupedKStream,
    JoinWindows,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    Processor,
    ProcessorContext,
    SessionWindowedKStream,
    StreamsBuilder,
    TimeWindowedKStream,
    Topology,
    ValueTransformer,
    WindowedCogroupedKStream,
    Windows,
    timestamp_extractors,
)

OPERATOR_LABELS = (
    "Null key:",
    "Null value:",
    "Late records:",
    "Order:",
    "Repartition:",
    "Store:",
    "Timestamp:",
)
OPERATOR_CLASSES = (
    KStream,
    KTable,
    BranchedKStream,
    KGroupedStream,
    KGroupedTable,
    TimeWindowedKStream,
    SessionWindowedKStream,
    CogroupedKStream,
    WindowedCogroupedKStream,
)
#: methods of the builder that make a stream or table
SOURCES = {"stream", "table", "global_table"}
#: operators without anything to check
CANNOT_FAIL = {"BranchedKStream.no_default_branch"}
#: types that annotations name: there is nothing to do with them, so no example
ALIASES = {"Partitioner", "TimestampExtractor", "TopicChooser"}
#: what describes a finished graph is data, not vocabulary
PLAN = {"SubTopology", "TopicRef", "Topology"}


def public_methods(cls: type) -> Iterator[tuple[str, Callable[..., Any] | property]]:
    for name, member in inspect.getmembers(cls):
        if name.startswith("_"):
            continue
        if inspect.isfunction(member) or inspect.ismethod(member) or isinstance(member, property):
            yield f"{cls.__name__}.{name}", member


def operators() -> dict[str, Any]:
    found = {name: one for cls in OPERATOR_CLASSES for name, one in public_methods(cls)}
    found |= {
        name: one
        for name, one in public_methods(StreamsBuilder)
        if name.rpartition(".")[2] in SOURCES
    }
    return found


def everything() -> dict[str, Any]:
    found = operators()
    for cls in (StreamsBuilder, Windows, JoinWindows, Processor, ProcessorContext):
        found |= dict(public_methods(cls))
    found |= dict(public_methods(ValueTransformer))
    found.pop("JoinWindows.size_ms")  # a number, as its name says
    found |= {
        name: one for name, one in public_methods(Topology) if "scribe" in name or "to_" in name
    }
    for name in dsl.__all__:
        if name not in ALIASES | PLAN:
            found[name] = getattr(dsl, name)
    for name, one in inspect.getmembers(timestamp_extractors, inspect.isfunction):
        found[name] = one
    return found


def documentation(member: Any) -> str:
    return inspect.getdoc(member.fget if isinstance(member, property) else member) or ""


def section(doc: str, name: str) -> str:
    found = re.search(rf"^{name}:.*\n((?:    .*\n?)+)", doc, re.MULTILINE)
    return found.group(1) if found else ""


def described_as(name: str) -> str | None:
    """Whose semantics this operator has too, "but" for the labels that it gives itself: those of
    another one, or those that its class tells for every operator.
    """
    doc = documentation(operators()[name])
    if re.search(r"^Semantics: as every operator(?:, but|\.)$", doc, re.MULTILINE):
        return name.partition(".")[0]
    found = re.search(r"^Semantics: as :meth:`(?:(\w+)\.)?(\w+)`(?:, but|\.)$", doc, re.MULTILINE)
    return found and f"{found.group(1) or name.partition('.')[0]}.{found.group(2)}"


def told_once(name: str, title: str) -> str:
    """What an operator's class tells in a section for all of its operators; what another function
    tells of which this one says "as for".
    """
    same = re.search(r"^Args: as for :func:`(\w+)`, and$", documentation(everything()[name]), re.M)
    if same:
        return section(documentation(everything()[same.group(1)]), title)
    owner = name.partition(".")[0]
    known = {cls.__name__: cls for cls in (*OPERATOR_CLASSES, StreamsBuilder)}
    classes = known[owner].__mro__ if "." in name and owner in known else ()
    told = [section(inspect.cleandoc(cls.__doc__ or ""), title) for cls in classes]
    return "\n".join(told)


def described(arguments: str) -> list[str]:
    return re.findall(r"^    \**(\w+):", arguments, re.MULTILINE)


def parameters(member: Any) -> list[str]:
    function = member.fget if isinstance(member, property) else member
    return [name for name in inspect.signature(function).parameters if name != "self"]


@pytest.mark.parametrize("name", everything())
def test_a_public_name_has_a_summary_an_example_and_a_source(name: str) -> None:
    doc = documentation(everything()[name])
    summary = " ".join(doc.partition("\n\n")[0].split())
    assert summary.endswith((".", ":")), f"no summary: {summary!r}"
    assert ">>> " in doc, "no example"
    assert re.search(r"^Source: .+", doc, re.MULTILINE), "no source of the rules"


@pytest.mark.parametrize("name", operators())
def test_an_operator_says_what_becomes_of_every_kind_of_record(name: str) -> None:
    classes = {cls.__name__: cls for cls in OPERATOR_CLASSES}
    semantics = section(documentation((operators() | classes)[name]), "Semantics")
    labels = re.findall(r"^    ([A-Z][a-z]+(?: [a-z]+)?:)", semantics, re.MULTILINE)
    if name in operators() and (other := described_as(name)):
        assert labels == [one for one in (*OPERATOR_LABELS, "Quirk:") if one in labels]
        assert other != name
        test_an_operator_says_what_becomes_of_every_kind_of_record(other)
        return
    assert tuple(labels[: len(OPERATOR_LABELS)]) == OPERATOR_LABELS
    assert labels[len(OPERATOR_LABELS) :] in ([], ["Quirk:"])


@pytest.mark.parametrize(
    "name", [name for name, one in everything().items() if not inspect.isclass(one)]
)
def test_a_function_documents_its_arguments_and_its_result(name: str) -> None:
    member = everything()[name]
    doc = documentation(member)
    here, once = described(section(doc, "Args")), described(told_once(name, "Args"))
    if "_ms" not in "".join(parameters(member)):  # extractors have one shape, told at the module
        assert here == [one for one in parameters(member) if one in here or one not in once]
    function = member.fget if isinstance(member, property) else member
    if inspect.signature(function).return_annotation not in ("None", None):
        assert section(doc, "Returns") or told_once(name, "Returns"), "nothing on what it returns"
    if name in operators() and name not in CANNOT_FAIL:
        assert section(doc, "Raises") or told_once(name, "Raises"), "nothing on what it raises"


AGGREGATIONS = [
    name for name in operators() if name.rpartition(".")[2] in ("count", "reduce", "aggregate")
]


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_an_aggregation_lists_all_its_arguments_where_it_is_called(name: str) -> None:
    signature = inspect.signature(operators()[name])
    kinds = {one.kind for one in signature.parameters.values()}
    assert not kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    given = [one for one in signature.parameters if one != "self"]
    assert {"store", "emit", "name"} <= set(given)
    assert described(section(documentation(operators()[name]), "Args")) == given


def test_every_grouped_class_has_its_aggregations() -> None:
    assert len(AGGREGATIONS) == 3 * 4 + 2  # a cogroup only aggregates


def test_an_operator_has_an_example_that_runs_records_through_it() -> None:
    without = [
        name for name, one in operators().items() if "TopologyTestDriver(" not in documentation(one)
    ]
    assert not without
