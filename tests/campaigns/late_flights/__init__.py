"""Flights that arrive up to six hours late, by windows and a join that emit late records."""
