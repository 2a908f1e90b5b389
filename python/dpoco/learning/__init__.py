"""What all learners share: rounds, records, states, tickets, people, plans, and models."""
