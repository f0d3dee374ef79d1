"""Messages of a generated Protobuf class, filled by what its descriptor says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logstate.generated.draw import Draw

_WHOLE = ("int64", "uint64", "int32", "fixed64", "fixed32", "uint32", "sfixed32", "sfixed64")
_INTEGERS = {*_WHOLE, "sint32", "sint64"}
_TIMES = {"google.protobuf.Timestamp", "google.protobuf.Duration"}


class ProtobufData:
    """Generates messages of one class; ``schema`` is from the description of its serde."""

    def __init__(self, message: Any, schema: Mapping[str, Any]) -> None:
        self._message, self._schema = message, schema

    def __call__(self, draw: Draw) -> Any:
        draw.depth = 0
        made = self._message()
        self._fill(made, self._schema["message"], draw)
        return made

    def _fill(self, message: Any, name: str, draw: Draw) -> None:
        if name in _TIMES:
            message.seconds = int(draw.instant().timestamp()) if name.endswith("p") else 7
            return
        draw.depth += 1
        seen: set[str] = set()
        for field in self._schema["messages"][name]["fields"].values():
            one_of = field.get("oneof")
            if one_of is None or one_of not in seen:
                self._fill_field(message, field, draw)
            if one_of is not None:
                seen.add(one_of)
        draw.depth -= 1

    def _fill_field(self, message: Any, field: Mapping[str, Any], draw: Draw) -> None:
        is_message = field["type"] in ("message", "group")
        if draw.is_deep and field.get("presence") != "required":
            return
        at = getattr(message, field["name"])
        if field["type"] == "map":
            self._fill_map(at, field, draw)
        elif field.get("repeated"):
            for _ in range(1 + draw.random.randrange(2)):
                if is_message:
                    self._fill(at.add(), field["of"], draw)
                else:
                    at.append(self._scalar(field, draw))
        elif is_message:
            at.SetInParent()
            self._fill(at, field["of"], draw)
        else:
            setattr(message, field["name"], self._scalar(field, draw))

    def _fill_map(self, at: Any, field: Mapping[str, Any], draw: Draw) -> None:
        key, value = self._scalar(field["key"], draw), field["value"]
        if value["type"] == "message":
            self._fill(at[key], value["of"], draw)
        else:
            at[key] = self._scalar(value, draw)

    def _scalar(self, field: Mapping[str, Any], draw: Draw) -> Any:
        kind = field["type"]
        if kind in _INTEGERS:
            return draw.integer()
        if kind == "enum":
            return int(draw.of(list(self._schema["enums"][field["of"]]["values"])))
        if kind == "bool":
            return draw.boolean()
        if kind == "bytes":
            return draw.data()
        return draw.word() if kind == "string" else float(draw.integer())
