"""Changelog: state and its log: the stores of a task, their changes, and the cut of a commit.

Imports contracts, and its rooms backend, rows and stores. `cut` is what a committed offset says,
`directory` where rows lie, `view` what queries see, `loading` how a replay comes in.
Start with `state`.
"""
