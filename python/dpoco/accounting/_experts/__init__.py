"""Parts of the accounting of learners with experts: private to the package."""
