"""The extension module is optional: without it, there is nothing to test here."""

from logstate.kafka.extension import extension_state

collect_ignore = [] if extension_state().is_used else ["test_records.py"]
