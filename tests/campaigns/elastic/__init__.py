"""Instances come, go, die and are replaced under a constant load: what that costs, and loses."""
