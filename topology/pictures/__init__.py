"""Pictures: a topology as Mermaid and as SVG. Loaded only when drawn.

Imports graph, whose `description` is what is drawn. `picture` is what both kinds show. Start with
`mermaid`.
"""
