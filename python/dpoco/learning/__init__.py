"""Shared parts of all learners: rounds, records, states, tickets, people, plans, and models."""
