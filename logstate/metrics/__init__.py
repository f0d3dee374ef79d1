"""Metrics: counters, gauges and histograms, and their exports.

Imports contracts only. `catalogue` lists every metric with its unit and labels, `own_metrics`
defines those of users, `instruments` counts, `prometheus` and `opentelemetry` export. Start with
`catalogue`.
"""
