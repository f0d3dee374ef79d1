"""Rows: the common basis of all kinds of stores.

Imports contracts, serdes and backend. Uncommitted writes over committed ones over the backend
(`rows`), encoding of values (`row_codec`), keys of windows, time segments, changelog writes
(`writes`). Start with `rows`.
"""
