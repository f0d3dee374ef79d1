"""Every way in which a topology may change between two starts, and what becomes of its state."""
