"""Commit: what must happen in order, as one list of steps.

Imports task, topics and what is below them; never restore or queries. `transaction` is the
producer, `output_buffer` says where outputs go meanwhile, `maintenance` what is done between
commits. Start with `commit`.
"""
