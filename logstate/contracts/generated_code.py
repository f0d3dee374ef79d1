"""Functions made from text, where one function made for a type replaces many calls per record.

The only place of the library that executes text. The text is put together from names of fields that
the program declares, never from anything that came with a record; it can be read: ``source`` of the
function, and every traceback shows its lines.
"""

from __future__ import annotations

import linecache
from functools import lru_cache
from typing import Any

#: file names in tracebacks begin with it
FILE_PREFIX = "<generated: "


@lru_cache(maxsize=1_000)
def make_function(name: str, source: str, origin: str) -> Any:
    r"""The function ``name`` that ``source`` defines; ``origin`` says in tracebacks what it is.

    Made once however often it is asked for, so that what the interpreter learns about its types is
    kept. A function that needs objects takes them as arguments, and defines and returns another.

    >>> double = make_function("double", "def double(x):\n    return 2 * x\n", "an example")
    >>> double(4), double.source.splitlines()[0]
    (8, 'def double(x):')
    """
    file_name = f"{FILE_PREFIX}{origin}>"
    linecache.cache[file_name] = (len(source), None, source.splitlines(keepends=True), file_name)
    defined: dict[str, Any] = {}
    exec(compile(source, file_name, "exec"), defined)  # noqa: S102
    function = defined[name]
    function.source = source
    return function
