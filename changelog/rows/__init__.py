"""Rows: what stores of every kind are made of.

Imports contracts, serdes and backend. Uncommitted writes over committed ones over the backend
(`rows`), bytes of values (`row_codec`), keys of windows, segments of time, what is logged
(`writes`). Start with `rows`.
"""
