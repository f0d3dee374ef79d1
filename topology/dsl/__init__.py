"""DSL: streams, tables and what is grouped, windowed and joined of them.

Imports every other room of topology; nobody imports it but the facades. A handle (`stream`,
`table`) notes what was declared; what runs is in operators. Start with `builder`, then `stream`.
"""
