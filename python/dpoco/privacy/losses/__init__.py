"""Losses: upper bounds, as curves, on what releases reveal about one change of the data."""
