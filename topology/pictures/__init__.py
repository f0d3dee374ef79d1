"""Pictures: a topology as Mermaid and as SVG. Loaded only when drawn.

Imports graph, whose `description` is drawn. `picture` has the common part of both kinds. Start with
`mermaid`.
"""
