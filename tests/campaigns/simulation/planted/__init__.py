"""Planted bugs: each breaks one rule on purpose, and the simulation must notice."""
