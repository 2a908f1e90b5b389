"""Parts of the accounting of contextual bandits."""
