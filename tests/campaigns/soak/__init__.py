"""An instance under a constant load for an hour: whether anything it holds grows."""
