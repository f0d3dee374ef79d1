"""Topics: a topology bound to a cluster, and the topics the application makes for itself.

Imports contracts, serdes, topology and changelog. `bound_plan` has real names and partition
counts, `internal_topics` makes and checks what is missing. Start with `bound_plan`.
"""
