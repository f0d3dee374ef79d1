"""Functions generated as text, where one function per type replaces many calls per record.

The only module of the library that executes text. The text is composed of names of fields that the
program declares, never of data of a record. It can be inspected: ``source`` of the function, and
every traceback shows its lines.
"""

from __future__ import annotations

import linecache
from functools import lru_cache
from typing import Any

#: file names in tracebacks begin with it
FILE_PREFIX = "<generated: "


@lru_cache(maxsize=1_000)
def make_function(name: str, source: str, origin: str) -> Any:
    r"""Return the function ``name`` that ``source`` defines; tracebacks show ``origin``.

    The result is cached, so that the interpreter's type specialization is kept. A function that
    needs objects takes them as arguments, and defines and returns another one.

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
