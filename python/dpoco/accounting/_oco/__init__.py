"""Parts of the accounting of the Euclidean learners: settings, searches, stored values."""
