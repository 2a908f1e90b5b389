"""Parts of the accounting of stay-or-switch bits: pairs, profiles, caps."""
