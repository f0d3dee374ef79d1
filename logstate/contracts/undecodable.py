r"""What msgspec raises about bytes of others: more than its own errors.

Text that is no UTF-8 is a UnicodeDecodeError, which with msgspec's own has ValueError in common;
data without a type may be nested deeper than Python goes.

>>> import msgspec
>>> try:
...     msgspec.json.decode(b'"\xff"')
... except UNDECODABLE as error:
...     print(type(error).__name__)
UnicodeDecodeError
"""

from __future__ import annotations

UNDECODABLE = (ValueError, RecursionError)
