"""Commit: everything that must happen in order, as one list of steps.

Imports task, topics and the layers below; never restore or queries. `transaction` has the producer,
`output_buffer` handles outputs during a commit, `maintenance` does the work between commits. Start
with `commit`.
"""
