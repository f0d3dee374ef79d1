"""Operators that aggregate: by key, by window, by session.

Imports graph and operators of streams and tables. One operator per file; when results are emitted
is in `emit_on_close` and `emit_on_commit`. Start with `aggregate`.
"""
