"""Labels of operators that the user did not name: what one does, and with which store or topic.

``KSTREAM-AGGREGATE-0000000003`` has the label ``count of 'spend'``. Errors, logs, metrics and
pictures show it together with the generated name, which remains the operator's only name:
``describe()`` and the topics and stores do not depend on labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from logstate.topology.graph.nodes import Node, ProcessorNode, SinkNode, SourceNode, TopicRef

_GENERATED = re.compile(r"(?:COGROUP)?K(?:STREAM|TABLE)-([A-Z-]+)-\d{10}")
#: the method of the DSL by the middle of a generated name, where they differ
_METHODS: Final[Mapping[str, str]] = {
    "FLATMAP": "flat_map",
    "FLATMAPVALUES": "flat_map_values",
    "FOREACH": "for_each",
    "JOINOTHER": "right side of the join",
    "JOINTHIS": "left side of the join",
    "KEY-SELECT": "select_key",
    "LEFTJOIN": "left_join",
    "MAPVALUES": "map_values",
    "MAPVALUESASYNC": "map_values_async",
    "OUTEROTHER": "right side of the outer join",
    "OUTERTHIS": "left side of the outer join",
    "PRINTER": "print",
    "PROCESSOR": "process",
    "PROCESSVALUES": "process_values",
    "SELECT": "group_by",
    "TOCHANGESTREAM": "to_change_stream",
    "TOSTREAM": "to_stream",
    "TOTABLE": "to_table",
    "TRANSFORMVALUES": "transform_values",
    "WINDOWED": "window",
}
#: of topics or stores in a label
_SHOWN_MAX = 2


def operator_labels(nodes: Iterable[Node], parents: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Map the generated names among the nodes to labels; parents come before their children.

    An operator is labeled by its own store, or else by one that it reads; others by the topics
    that their records come from, and sources and sinks by their topics.
    """
    labels: dict[str, str] = {}
    topics: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        if isinstance(node, SourceNode):
            topics[node.name] = tuple(topic.name for topic in node.topics)
        else:
            above = (topics.get(parent, ()) for parent in parents.get(node.name, ()))
            topics[node.name] = tuple(dict.fromkeys(name for names in above for name in names))
        generated = _GENERATED.fullmatch(node.name)
        if generated is not None:
            operation = _operation(node, generated[1])
            labels[node.name] = (
                f"{operation} of {_shortened_list(_stores_or_topics(node, topics[node.name]))}"
            )
    return labels


def with_label(name: str, *labels: Mapping[str, str]) -> str:
    """Return a name for messages, with its label behind it if there is one.

    >>> with_label("KSTREAM-AGGREGATE-0000000003", {"KSTREAM-AGGREGATE-0000000003": "count of 'a'"})
    "'KSTREAM-AGGREGATE-0000000003' (count of 'a')"
    >>> with_label("tax", {})
    "'tax'"
    """
    label = next((found[name] for found in labels if name in found), None)
    return repr(name) if label is None else f"{name!r} ({label})"


def _operation(node: Node, kind: str) -> str:
    own = node.operation if isinstance(node, ProcessorNode) else None
    if own is not None:
        return own
    if kind.startswith("FK-JOIN"):
        return "foreign-key join"
    return _METHODS.get(kind, kind.lower().replace("-", "_"))


def _stores_or_topics(node: Node, topics: Sequence[str]) -> Sequence[str]:
    if isinstance(node, SinkNode):
        return (node.topic.name,) if isinstance(node.topic, TopicRef) else ()
    if not isinstance(node, ProcessorNode):
        return topics
    own = [spec.name for spec in node.own_stores()]
    stores = own or [*node.store_names(), *node.global_store_names()]
    return [name for name in stores if not _has_generated_name(name)] or topics


def _has_generated_name(store: str) -> bool:
    return _GENERATED.fullmatch(store) is not None


def _shortened_list(names: Sequence[str]) -> str:
    if not names:
        return "topics that a function chooses"
    shown = ", ".join(repr(name) for name in names[:_SHOWN_MAX])
    more = len(names) - _SHOWN_MAX
    return shown if more < 1 else f"{shown} and {more} more"
