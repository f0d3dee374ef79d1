"""Options, output and access to stored state that several commands share.

Imports changelog, directory, kafka, topics and what is below them. Start with `options`.
"""
