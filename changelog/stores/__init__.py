"""Stores: one kind per file, over rows.

Imports contracts, serdes, backend and rows. `store_kind` defines what a kind consists of, `kinds`
registers all of them. Start with `key_value`, then `window`.
"""
