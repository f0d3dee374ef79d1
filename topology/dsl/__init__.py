"""DSL: streams, tables and what is grouped, windowed and joined of them.

Imports every other room of topology; nobody imports it but the facades. A handle notes what
was declared, a flow adds it to the graph, an operator runs it. Start with `builder`, then
`handles`.
"""
