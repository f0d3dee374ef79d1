"""Stores: one kind per file, over rows.

Imports contracts, serdes, backend and rows. `kinds` says which class keeps which kind. Start with
`key_value`, then `window`.
"""
