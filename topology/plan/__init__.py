"""Plan: the finished topology, and what happens between declaring and running it.

Imports graph, operators, processor, pictures and their dependencies; never the DSL. `optimization`
rewrites the logical graph, `compilation` turns nodes into closures. Start with `plan`.
"""
