"""Losses: what releases tell about one change, as curves that are upper bounds."""
