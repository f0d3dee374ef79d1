"""The operators: node classes, each compiled into one closure per task."""
