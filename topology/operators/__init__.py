"""The operators: one node class per file, each compiled into one closure per task."""
