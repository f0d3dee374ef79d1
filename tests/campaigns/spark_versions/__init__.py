"""What each version of PySpark can do with stores, run on all of them: ``__main__`` says how."""
