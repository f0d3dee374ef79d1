"""Graph: the nodes of a topology, logical and physical, and its sub-topologies.

Imports contracts, serdes and declaring. `logical` is what the user's calls declared, `nodes` what
runs, `plan_builder` collects the one from the other, `grouping` cuts sub-topologies. Start with
`nodes`.
"""
