"""DSL: streams, tables and what is grouped, windowed and joined of them.

Imports every other package of topology; only the facades import it. A handle records what was
declared, a flow adds it to the graph, an operator runs it. Start with `builder`, then
`handles`.
"""
