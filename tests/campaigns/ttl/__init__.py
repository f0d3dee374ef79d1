"""Rows that expire, after a kill and a lost disk, as every reader sees them."""
