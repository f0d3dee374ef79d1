"""The text of an error that a user's code raised: short enough for a log line or a header.

Errors quote the value they were given, even if it has a megabyte, and some cannot be converted to
text. A message about an error must not fail because of that.

>>> text_of(ValueError("not a number: " + "x" * 5_000))[-40:]
'xxxxxxxxxxxxxxxx… (cut: 5014 characters)'
"""

from __future__ import annotations

import builtins
import re
import traceback

#: messages of ``str.encode`` and ``bytes.__bytes__``, which are used as serdes for their speed
_OF_CODEC = re.compile(r"descriptor '\w+' for '(\w+)' objects doesn't apply to an? '(.+)' object")
_TEXT_MAX = 2_000
#: a stack trace in a header is cut here: headers count towards the record's size
_TRACE_MAX = 4_000


def printable(text: str) -> str:
    r"""Return text that every log and terminal accepts: lone surrogates are escaped.

    >>> printable("a\ud800b")
    'a\\ud800b'
    """
    return text.encode(errors="backslashreplace").decode()


def no_utf8(text: str) -> str:
    r"""Describe what UTF-8 cannot encode in a text, and what to do.

    >>> no_utf8("a\ud800")[:58]
    'the lone surrogate U+D800 at position 1, which UTF-8 canno'
    """
    place, char = next((i, c) for i, c in enumerate(text) if "\ud800" <= c <= "\udfff")
    return (
        f"the lone surrogate U+{ord(char):04X} at position {place}, which UTF-8 cannot encode:"
        " decode the text as what it is (errors='replace', not 'surrogateescape')"
    )


def type_name(value: object) -> str:
    """Return the name of a value's type, with its module if the name is ambiguous.

    >>> type_name(1)
    'int'
    >>> type_name(type("int", (), {"__module__": "shop"})())
    'shop.int'
    """
    cls = type(value)
    module = str(cls.__module__)
    is_clear = module == "builtins" or not (hasattr(builtins, cls.__name__) or module == "numpy")
    return cls.__name__ if is_clear else f"{module}.{cls.__name__}"


def text_of(error: BaseException) -> str:
    """Return an error's text, without a period at its end, truncated if it is long.

    For a codec's own error, return its meaning.

    >>> try:
    ...     str.encode(5)
    ... except TypeError as error:
    ...     text_of(error)
    'a str is needed, found int: make it one, or declare the type that it really has'
    """
    try:
        text = str(error)
    except Exception as exc:  # noqa: BLE001  a user's __str__
        return f"(no text: its __str__ raised {type(exc).__name__})"
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        return f"a text has {no_utf8(error.object)}"
    text = printable(text)
    if text.endswith(".") and not text.endswith(".."):
        text = text[:-1]
    of_codec = _OF_CODEC.fullmatch(text) if isinstance(error, TypeError) else None
    if of_codec is not None:
        needed, found = of_codec.groups()
        found = "None" if found == "NoneType" else found
        return (
            f"a {needed} is needed, found {found}: make it one, or declare the type that it really"
            " has"
        )
    if len(text) <= _TEXT_MAX:
        return text
    return f"{text[:_TEXT_MAX]}… (cut: {len(text)} characters)"


def trace_of(error: BaseException) -> str:
    """Return the traceback and the error's text, truncated at its beginning if it is long."""
    try:
        lines = traceback.format_exception(error)
    except Exception as exc:  # noqa: BLE001  objects attached to the error are the user's too
        return f"(no traceback: formatting it raised {type(exc).__name__})"
    last = lines[-1]
    if len(last) > _TEXT_MAX:  # otherwise no frames would be left
        lines[-1] = f"{last[:_TEXT_MAX]}… (cut: {len(last)} characters)\n"
    text = "".join(lines)
    if len(text) <= _TRACE_MAX:
        return text
    return f"(cut: {len(text)} characters) …{text[-_TRACE_MAX:]}"
