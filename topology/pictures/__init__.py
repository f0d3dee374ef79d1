"""Pictures: a topology as text, as Mermaid and as SVG. Loaded only when drawn.

Imports graph. `description` is byte for byte Kafka Streams' form; `picture` is what both pictures
show. Start with `description`.
"""
